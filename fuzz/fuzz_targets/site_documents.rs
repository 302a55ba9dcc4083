//! Documents of sites, as stores hold them and as `host set` takes them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sekisho_certs::{Site as Stored, Tenant};
use sekisho_server::site::{Site, SiteDocument};

fuzz_target!(|text: &str| {
    let tenant = Tenant::parse("tenant").expect("a name");
    for format in 0..=4 {
        let stored = Stored {
            format,
            json: text.into(),
        };
        if let Err(error) = Site::parse(&stored, &tenant) {
            let error = error.to_string();
            assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
        }
    }
    if let Ok(document) = SiteDocument::parse(text)
        && let Ok(site) = document.site(&tenant)
    {
        let again = Site::parse(document.stored(), &tenant).expect("it was taken");
        assert_eq!(format!("{again:?}"), format!("{site:?}"));
    }
});
