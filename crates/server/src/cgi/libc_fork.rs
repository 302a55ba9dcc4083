//! How the C library of this machine starts programs.

#![expect(unsafe_code, reason = "symbols of libc are asked for by dlsym")]

/// Returns whether the start of a program copies the page table of the server: it then takes
/// longer the more memory the server has. On glibc older than 2.29, `posix_spawn` can't change
/// the working directory, and std forks.
pub fn starts_by_fork() -> bool {
    let name = c"posix_spawn_file_actions_addchdir_np";
    // SAFETY: The name ends with NUL. The address is compared with null alone.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.is_null()
}
