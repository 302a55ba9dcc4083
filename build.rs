//! Settings of the linker for the binary.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |key: &str, value: &str| env::var(key).is_ok_and(|is| is == value);
    // Relative relocations take 11 KB in this form (DT_RELR, glibc 2.36) instead of
    // 560, all of which the dynamic linker reads at each start.
    let is_gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if is_gnu && env::var_os("CARGO_FEATURE_RELR").is_some() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
