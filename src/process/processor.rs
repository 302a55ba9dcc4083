//! Chooses the multiplication that RSA signatures use on this processor.

use std::env::{args_os, current_exe, var_os};
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Returns whether RSA signs faster here without the multiplications of ADX: on Zen 3, by a
/// tenth (decision 23). aws-lc takes ADX wherever it is, unless there is AVX-512 IFMA. False
/// where the operator has chosen by `OPENSSL_ia32cap`.
pub(crate) fn has_slow_adx() -> bool {
    gains_without_adx(var_os(CAPABILITIES).as_deref(), Processor::this())
}

fn gains_without_adx(chosen: Option<&OsStr>, processor: Processor) -> bool {
    chosen.is_none() && processor.has_slow_adx()
}

/// Replaces this process by the same program with ADX switched off in aws-lc (execve(2)):
/// aws-lc reads its environment before `main`. Returns only if that fails.
pub(crate) fn start_again_without_adx() -> io::Error {
    match again() {
        Ok(again) => replace_by(again),
        Err(error) => error,
    }
}

fn again() -> io::Result<Command> {
    let mut arguments = args_os();
    // By its path: the kernel names a process after the file that it is told.
    let mut again = Command::new(current_exe()?);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    again.args(arguments).env(CAPABILITIES, WITHOUT_ADX);
    Ok(again)
}

#[expect(
    unsafe_code,
    reason = "std changes a signal's action here, and no dependency changes it back safely"
)]
fn replace_by(mut program: Command) -> io::Error {
    let error = program.exec();
    // `exec` has set SIGPIPE to end the process, which a client's reset would cause.
    // SAFETY: the action is a constant, and no other thread runs yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    error
}

/// Parts of CPUID that the choice depends on.
#[derive(Clone, Copy, Debug)]
struct Processor {
    amd: bool,
    /// Leaf 1, EAX: family, model and stepping.
    signature: u32,
    adx: bool,
    ifma: bool,
}

impl Processor {
    #[cfg(target_arch = "x86_64")]
    fn this() -> Self {
        use std::arch::x86_64::__cpuid;

        let vendor = __cpuid(0);
        Self {
            amd: [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes) == AMD,
            signature: __cpuid(1).eax,
            adx: std::arch::is_x86_feature_detected!("adx"),
            ifma: std::arch::is_x86_feature_detected!("avx512ifma"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn this() -> Self {
        Self {
            amd: false,
            signature: 0,
            adx: false,
            ifma: false,
        }
    }

    fn has_slow_adx(self) -> bool {
        self.amd && is_zen3(self.signature) && self.adx && !self.ifma
    }
}

/// Returns whether a signature is that of a Zen 3: family 0x19 and one of these models.
/// Others of the family are Zen 4, which a virtual machine may show without IFMA.
fn is_zen3(signature: u32) -> bool {
    let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
    let model = (signature >> 4 & 0xf) | (signature >> 12 & 0xf0);
    family == 0x19 && matches!(model, 0..=0x0f | 0x20..=0x5f)
}

/// Variable that changes what aws-lc takes the processor for.
const CAPABILITIES: &str = "OPENSSL_ia32cap";

/// Clears bit 19 of the second pair of words: ADX in leaf 7.
const WITHOUT_ADX: &str = "~0x0:~0x80000";

#[cfg(target_arch = "x86_64")]
const AMD: [[u8; 4]; 3] = [*b"Auth", *b"enti", *b"cAMD"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zen_3_has_slow_adx() {
        let zen3 = Processor {
            amd: true,
            signature: 0x00a2_0f12,
            adx: true,
            ifma: false,
        };
        assert!(gains_without_adx(None, zen3));
        // The operator has chosen, be it with an empty value.
        for chosen in ["", "~0x0:~0x80000"] {
            assert!(!gains_without_adx(Some(OsStr::new(chosen)), zen3));
        }
        // Zen 2, Zen 4, Skylake.
        let signatures = [0x0083_0f10, 0x00a1_0f11, 0x0005_0657];
        let others = signatures.map(|signature| Processor { signature, ..zen3 });
        assert!(others.iter().all(|other| !other.has_slow_adx()));
        let others = [
            Processor { ifma: true, ..zen3 },
            Processor { adx: false, ..zen3 },
            Processor { amd: false, ..zen3 },
        ];
        assert!(others.iter().all(|other| !other.has_slow_adx()));
    }

    #[test]
    fn a_client_that_resets_ends_no_server_that_could_not_start_again() {
        let missing = Command::new("/nonexistent/sekisho");
        assert_eq!(replace_by(missing).kind(), io::ErrorKind::NotFound);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:\t"));
        let ignored = u64::from_str_radix(ignored.unwrap(), 16).unwrap();
        assert!(ignored & 1 << (libc::SIGPIPE - 1) != 0);
    }

    /// aws-lc ends a program whose variable it refuses.
    #[test]
    fn the_program_starts_again_with_all_arguments() {
        let again = again().unwrap();
        let arguments: Vec<_> = again.get_args().collect();
        assert_eq!(arguments, args_os().skip(1).collect::<Vec<_>>());
        let mut listing = Command::new(again.get_program());
        let envs = again
            .get_envs()
            .filter_map(|(key, value)| Some((key, value?)));
        let listed = listing.envs(envs).arg("--list").output().unwrap();
        assert!(listed.status.success(), "{listed:?}");
        assert!(!listed.stdout.is_empty());
    }
}
