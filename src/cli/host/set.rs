//! `sekisho host set`

use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use sekisho_certs::{
    Catalog, ClientCa, HostPattern, HostRecord, SealedBytes, StoredCredential, Tenant, TlsVersion,
    printable,
};
use sekisho_issuance::admission::FirstAccess;

use crate::cli::cert::{self, Leaf, check_covers};
use crate::cli::edit::{Edit, edit};
use crate::cli::host::client_ca::ClientCaArgs;
use crate::cli::host::running;
use crate::cli::host::site::{Chosen, SiteArgs, check_record};
use crate::cli::issuance::{Issuance, WishArgs};
use crate::cli::named::Named;
use crate::config::Config;
use crate::terminal::configuration;
use crate::terminal::failure::{self, Ended, Result, Usage};
use crate::wiring::open;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The host: a name, or '*.' and a name
    name: HostPattern,
    /// Who owns it; '' is the operator
    #[arg(long, value_name = "T", value_parser = Tenant::parse)]
    tenant: Option<Tenant>,
    /// Serve it with this credential, or with those that another host uses
    #[arg(long, value_name = "ID|PATTERN")]
    cert: Option<Named>,
    /// Order a certificate for it now, as 'sekisho cert issue' does
    #[arg(long, conflicts_with = "cert")]
    issue: bool,
    #[command(flatten)]
    site: SiteArgs,
    /// The lowest TLS version that its clients may use
    #[arg(long, value_name = "VERSION", value_parser = tls_version)]
    min_tls: Option<TlsVersion>,
    #[command(flatten)]
    client_ca: ClientCaArgs,
    /// Answer as if the host did not exist, but keep its record
    /// [--disabled=false takes it back]
    #[arg(
        long,
        num_args = 0..=1,
        default_missing_value = "true",
        require_equals = true,
        hide_possible_values = true,
        value_name = "BOOL"
    )]
    disabled: Option<bool>,
}

impl Args {
    /// Reads the site that the arguments choose.
    fn chosen(&self) -> Result<Chosen> {
        if self.site.reads_input() && self.client_ca.reads_input() {
            let why = "standard input holds one file: give the site or the client CA another";
            return Err(Usage(why.into()).into());
        }
        self.site.read()
    }

    /// Checks, before a store is created, whether a certificate can be ordered.
    fn issuance<'a>(&self, config: &'a Config) -> Result<Option<Issuance<'a>>> {
        if !self.issue {
            return Ok(None);
        }
        let issuance = Issuance::of(config)?;
        let names = std::slice::from_ref(&self.name);
        issuance.check(&[names], &WishArgs::default())?;
        Ok(Some(issuance))
    }

    fn apply(
        &self,
        record: &mut HostRecord,
        (chosen, client_ca): (&Chosen, Option<&Option<Arc<ClientCa>>>),
        certs: &[StoredCredential<SealedBytes>],
    ) -> Result<()> {
        let before = record.tenant.clone();
        if let Some(tenant) = &self.tenant {
            record.tenant = tenant.clone();
        }
        chosen.apply(record, &before)?;
        if let Some(min) = self.min_tls {
            record.tls.min = min;
        }
        self.client_ca.apply(client_ca, record)?;
        if let Some(disabled) = self.disabled {
            record.disabled = disabled;
        }
        for cert in certs {
            record.references.set(cert.key_type, Some(cert.id));
        }
        Ok(())
    }

    /// Returns the credentials of `--cert`, each of which must cover the name.
    async fn certs(&self, catalog: &dyn Catalog) -> Result<Vec<StoredCredential<SealedBytes>>> {
        let Some(named) = &self.cert else {
            return Ok(Vec::new());
        };
        let found = named.credentials(catalog).await?;
        for cert in &found {
            check_covers(&Leaf::of(cert)?.names, &self.name)
                .map_err(|why| anyhow!("{}: {why}", cert.id))?;
        }
        Ok(found)
    }
}

pub(super) async fn run(config: Option<&Path>, args: &Args) -> Result<Ended> {
    let chosen = &args.chosen()?;
    let config = &configuration::load(config)?;
    chosen.check(config, args.tenant.as_ref())?;
    let issuance = args.issuance(config)?;
    let client_ca = args.client_ca.chosen()?;
    let sealer = &open::create(config).await?;
    let mut certless = false;
    let mut unfit = None;
    edit(sealer, &args.name, async |stored| {
        let certs = args.certs(sealer.catalog().as_ref()).await?;
        let new = || HostRecord::new(args.name.clone());
        let mut record = stored.clone().unwrap_or_else(new);
        args.apply(&mut record, (chosen, client_ca.as_ref()), &certs)?;
        check_record(config, &record, stored.as_ref())?;
        certless = record.references.is_empty();
        // Folders of [site] may depend on the tenant.
        let default = record.site.is_none().then_some(&config.site);
        unfit = default.and_then(|site| site.of_tenant(&record.tenant).err());
        Ok(match stored.as_ref() == Some(&record) {
            true => Edit::Keep,
            false => Edit::Put(record),
        })
    })
    .await?;
    if chosen.names_places() {
        running::compare(config).await;
    }
    if let Some(folder) = args.site.missing_folder() {
        let folder = printable(&folder.display().to_string());
        eprintln!("warning: {folder} is not there; until it is, requests get 404");
    }
    if let Some(error) = unfit {
        let hint = "until it has another --tenant, or a site of its own, the host is not served";
        failure::warn(&anyhow!("[site] {error}"), hint);
    }
    if let Some(issuance) = issuance {
        return cert::order_one(issuance, sealer, &args.name).await;
    }
    if certless {
        let name = &args.name;
        let acme = config.acme.as_ref();
        let first_access = acme.map(|acme| acme.settings.admission.first_access);
        let ways = match first_access.unwrap_or(FirstAccess::Off) {
            FirstAccess::Off => "store one with 'sekisho cert import', order one with --issue,",
            FirstAccess::Hosts | FirstAccess::Ask => {
                "servers order one with its first visit; order it now with --issue,"
            }
        };
        eprintln!(
            "note: {name} has no certificate yet; {ways} or point it at one with \
             'sekisho host set {name} --cert …'"
        );
    }
    Ok(Ended::Done)
}

fn tls_version(text: &str) -> Result<TlsVersion, String> {
    TlsVersion::parse(text).ok_or_else(|| "there are 1.2 and 1.3".into())
}

const EXAMPLES: &str = "\
Only the given fields change; a host that does not exist is created.

Examples:
  sekisho host set shop.example --tenant anna --root /srv/www/shop
  sekisho host set shop.example --root /srv/www/shop --fastcgi unix:/run/php/anna.sock
  sekisho host set shop.example --issue
  sekisho host set app.example --upstream http://127.0.0.1:3000
  sekisho host set shop.example --site site.json
  sekisho host set old.example --redirect https://shop.example
  sekisho host set staff.example --root /srv/www/staff --auth staff.htpasswd
  sekisho host set late.example --status 503 --text suspended.txt
  sekisho host set www.shop.example --cert shop.example
  sekisho host set shop.example --min-tls 1.3
  sekisho host set api.example --client-ca partners.pem
  sekisho host set api.example --client-ca-optional
  sekisho host set shop.example --disabled
  sekisho host set shop.example --disabled=false --default-site";
