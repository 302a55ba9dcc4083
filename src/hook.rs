//! The handshake hook: what a script reaches, over what the stores have.

#![cfg_attr(
    not(test),
    expect(dead_code, reason = "no configuration names a script yet")
)]

mod clients;
