//! Chooses the multiplication that RSA signatures use on this processor.

use std::convert::Infallible;
use std::env::{args_os, var_os};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Returns whether RSA signs faster here with plain multiplications than with those of ADX:
/// on Zen 3, by a tenth (docs/performance.md). aws-lc takes ADX wherever it is, unless there
/// is AVX-512 IFMA. False where the operator has chosen by `OPENSSL_ia32cap`.
pub(crate) fn has_slow_adx() -> bool {
    var_os(CAPABILITIES).is_none() && Processor::this().has_slow_adx()
}

/// Starts this program again, in this process, with ADX switched off in aws-lc: it reads its
/// environment before `main`. Returns only if that fails.
pub(crate) fn start_again_without_adx() -> io::Result<Infallible> {
    Err(again().exec())
}

fn again() -> Command {
    let mut arguments = args_os();
    let mut again = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    again.args(arguments).env(CAPABILITIES, WITHOUT_ADX);
    again
}

/// Parts of CPUID that the choice depends on.
#[derive(Clone, Copy, Debug)]
struct Processor {
    amd: bool,
    family: u32,
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
            family: family(__cpuid(1).eax),
            adx: std::arch::is_x86_feature_detected!("adx"),
            ifma: std::arch::is_x86_feature_detected!("avx512ifma"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn this() -> Self {
        Self {
            amd: false,
            family: 0,
            adx: false,
            ifma: false,
        }
    }

    fn has_slow_adx(self) -> bool {
        self.amd && self.family == ZEN_3_AND_4 && self.adx && !self.ifma
    }
}

/// Returns the family of a processor from the signature that CPUID has in leaf 1.
#[cfg(any(target_arch = "x86_64", test))]
fn family(signature: u32) -> u32 {
    let (base, extended) = (signature >> 8 & 0xf, signature >> 20 & 0xff);
    if base == 0xf { base + extended } else { base }
}

/// Variable that changes what aws-lc takes the processor for.
const CAPABILITIES: &str = "OPENSSL_ia32cap";

/// Clears bit 19 of the second pair of words: ADX in leaf 7.
const WITHOUT_ADX: &str = "~0x0:~0x80000";

/// Family of AMD's processors of these two generations. Zen 4 has IFMA.
const ZEN_3_AND_4: u32 = 0x19;

#[cfg(target_arch = "x86_64")]
const AMD: [[u8; 4]; 3] = [*b"Auth", *b"enti", *b"cAMD"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zen_3_has_slow_adx() {
        let zen3 = Processor {
            amd: true,
            family: family(0x00a2_0f12),
            adx: true,
            ifma: false,
        };
        assert!(zen3.has_slow_adx());
        let others = [
            Processor { ifma: true, ..zen3 },
            Processor { adx: false, ..zen3 },
            Processor { amd: false, ..zen3 },
            Processor {
                family: family(0x0083_0f10),
                ..zen3
            },
            Processor {
                family: family(0x0005_0657),
                ..zen3
            },
        ];
        assert!(others.iter().all(|other| !other.has_slow_adx()));
    }

    /// aws-lc ends a program whose variable it refuses.
    #[test]
    fn the_program_starts_again_with_all_arguments() {
        let again = again();
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
