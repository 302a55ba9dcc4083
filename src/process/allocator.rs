//! jemalloc and its settings.

/// The global allocator. It overrides C's malloc, too, through which aws-lc and
/// SQLite allocate.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Settings that jemalloc reads before `main`. Two arenas suffice for few
/// workers, and each arena keeps its own free pages. A background thread
/// returns unused pages to the system after 1 s.
#[expect(
    unsafe_code,
    reason = "the allocator finds its settings by their symbol"
)]
// SAFETY: the symbol is jemalloc's, declared as a pointer to characters that
// end with a NUL; a reference to an array is such a pointer, and this crate
// defines the symbol nowhere else.
#[unsafe(export_name = "malloc_conf")]
static MALLOC_CONF: &[u8; SETTINGS.len()] = match SETTINGS.as_bytes().first_chunk() {
    Some(settings) => settings,
    None => panic!("an array is as long as itself"),
};

const SETTINGS: &str = "narenas:2,background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0\0";
