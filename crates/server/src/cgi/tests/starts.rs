//! What a program finds when it starts.

use super::*;

use std::fs::File;

use sekisho_certs::with_all_signals;

#[tokio::test]
async fn the_environment_is_what_was_given() {
    let script = Script::copy_of("/usr/bin/env");
    let environment = [("PATH", "/bin"), ("QUERY_STRING", "a=b"), ("EMPTY", "")];
    let environment = environment.map(|(name, value)| (name.into(), value.into()));
    let mut job = script.job();
    job.environment = environment.into();
    let running = start(&Programs::new(AT_ONCE), job).await.unwrap();
    let text = all(running).await.unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["EMPTY=", "PATH=/bin", "QUERY_STRING=a=b"]);
    assert_eq!(all(script.start().await).await.unwrap(), "");
}

#[tokio::test]
async fn a_program_has_three_descriptors_and_its_folder() {
    let _many: Vec<_> = (0..100).map(|_| File::open("/dev/null").unwrap()).collect();
    // Limits are set while the program runs.
    let lines = "pwd; /bin/sleep 0.3; ulimit -n; ulimit -c; exec /bin/ls /proc/self/fd";
    let script = Script::new(lines);
    let text = all(script.start().await).await.unwrap();
    let (numbers, others): (Vec<_>, Vec<_>) = text.lines().partition(|line| {
        let number = line.parse::<u64>();
        number.is_ok_and(|number| number > 0 && number < 1024)
    });
    let folder = fs::canonicalize(script.path()).unwrap();
    assert_eq!(others, [folder.to_str().unwrap(), "1024", "0", "0"]);
    // `ls` itself opens the folder.
    let own = ["1", "2", "3"].map(str::to_owned);
    let mut wanted: Vec<_> = own.into_iter().chain(passed_on()).collect();
    wanted.sort();
    wanted.dedup();
    assert_eq!(numbers, wanted);
}

/// Returns the descriptors that every program of this process inherits: those that were open
/// when the process started. All others must be closed by an exec.
fn passed_on() -> Vec<String> {
    let descriptors = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let open = descriptors.filter_map(|descriptor| {
        let number = descriptor.file_name().into_string().unwrap();
        let info = fs::read_to_string(descriptor.path()).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u64::from_str_radix(flags.trim(), 8).unwrap();
        let is_inherited = flags & 0o2_000_000 == 0;
        (is_inherited && number != "0").then_some(number)
    });
    open.collect()
}

#[test]
fn a_program_starts_with_no_signal_blocked_or_ignored() {
    let script = Script::new("exec /bin/cat /proc/self/status");
    // Threads of the server hold signals back, those for blocking calls too.
    block_signals();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().build().unwrap();
    let (own, status) = runtime.block_on(async {
        let own = spawn_blocking(|| fs::read_to_string("/proc/thread-self/status").unwrap());
        let status = all(script.start().await).await.unwrap();
        (own.await.unwrap(), status)
    });
    assert_ne!(signals(&own, "SigBlk"), 0);
    assert_eq!(signals(&status, "SigBlk"), 0);
    assert_eq!(signals(&status, "SigCgt"), 0);
    // Signals that this process inherited as ignored stay so.
    let pipe = 1 << (libc::SIGPIPE - 1);
    assert_ne!(signals(&own, "SigIgn") & pipe, 0);
    assert_eq!(signals(&status, "SigIgn"), signals(&own, "SigIgn") & !pipe);
}

/// Returns a set of signals in the status of a process.
fn signals(status: &str, name: &str) -> u64 {
    let lines = status.lines().filter_map(|line| line.split_once(":\t"));
    let (_, set) = lines.into_iter().find(|(key, _)| *key == name).unwrap();
    // Numbers 32 and 33 are glibc's own. Its `posix_spawn` has them ignored.
    u64::from_str_radix(set, 16).unwrap() & !(0b11 << 31)
}

/// Blocks the signals that a server knows, in this thread and those that it starts.
#[expect(unsafe_code, reason = "the mask of signals is libc's")]
fn block_signals() {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: `sigemptyset` makes the set, which the other calls change and read.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGHUP,
            libc::SIGUSR1,
            libc::SIGUSR2,
        ] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Has strace read the system calls of another process of this test's file, which starts one
/// program.
#[test]
fn no_start_copies_the_page_table() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-e", "trace=process", "-o"])
        .arg(&calls)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "cgi::tests::starts::one_program", "--ignored"])
        .stdout(Stdio::null());
    let status = with_all_signals(|| strace.status()).expect("strace, by tools/need");
    assert!(status.success());
    let calls = fs::read_to_string(calls).unwrap();
    let clones = calls.lines().filter(|line| {
        let starts = ["clone(", "clone3(", "fork("];
        starts.iter().any(|call| line.contains(call)) && !line.contains("CLONE_THREAD")
    });
    let clones: Vec<_> = clones.collect();
    // The one that copies the program, and the program.
    assert_eq!(clones.len(), 2, "{clones:#?}");
    for call in clones {
        assert!(call.contains("CLONE_VM|CLONE_VFORK"), "{call}");
    }
    assert!(!starts_by_fork());
}

#[tokio::test]
#[ignore = "no_start_copies_the_page_table runs it under strace"]
async fn one_program() {
    let script = Script::copy_of("/bin/pwd");
    let folder = fs::canonicalize(script.path()).unwrap();
    let text = all(script.start().await).await.unwrap();
    assert_eq!(Path::new(text.trim_end()), folder);
}

#[tokio::test]
async fn a_program_that_cannot_start_says_why() {
    let script = Script::new("");
    let job = script.job();
    fs::write(script.path().join("other"), "#!/no/such/shell\n").unwrap();
    fs::rename(script.path().join("other"), script.path().join("run")).unwrap();
    let programs = Programs::new(AT_ONCE);
    let error = start(&programs, job).await.unwrap_err();
    assert!(matches!(error, StartError::System(..)), "{error}");
    assert_eq!(programs.running.used(), 0);
}
