//! New accounts (RFC 8555, sections 7.3 and 7.3.4).

use data_encoding::BASE64URL_NOPAD;
use instant_acme::{ExternalAccountKey, Key};
use rustls_pki_types::PrivatePkcs8KeyDer;
use sekisho_certs::credential::Secret;

use super::{Account, ExternalAccount, NewAccount};
use crate::acme::ca::Ca;
use crate::acme::error::Fault;
use crate::acme::exchange::Exchange;

impl Ca {
    pub(super) async fn create(&self, new: &NewAccount) -> Result<Account, Fault> {
        self.check_wants(new).await?;
        let external = new.external.as_ref().map(external_key).transpose()?;
        let contact: Vec<_> = new.contact.iter().map(String::as_str).collect();
        let asked = instant_acme::NewAccount {
            contact: &contact,
            terms_of_service_agreed: new.agree,
            only_return_existing: false,
        };
        let (exchange, _) = Exchange::new(&self.transport);
        let created = instant_acme::Account::builder_with_http(exchange)
            .create(&asked, self.directory().to_owned(), external.as_ref())
            .await;
        let (account, credentials) = created.map_err(|error| match Fault::from(error) {
            fault if external.is_some() => blame_external(fault),
            fault => fault,
        })?;
        Account::of(self, account.id(), new.contact.clone(), &credentials)
    }

    pub(super) async fn create_of(&self, key: &Secret, new: &NewAccount) -> Result<Account, Fault> {
        self.check_wants(new).await?;
        let key = PrivatePkcs8KeyDer::from(key.expose()).clone_key();
        let key = (Key::from_pkcs8_der(key.clone_key())?, key.into());
        let (exchange, _) = Exchange::new(&self.transport);
        let (account, credentials) = instant_acme::Account::builder_with_http(exchange)
            .create_from_key(key, self.directory().to_owned())
            .await?;
        let account = Account::of(self, account.id(), Vec::new(), &credentials)?;
        if new.contact.is_empty() {
            return Ok(account);
        }
        Ok(account
            .set_contact(&new.contact)
            .await
            .unwrap_or_else(|error| {
                tracing::warn!(ca = self.name(), %error, "the account has no contact");
                account
            }))
    }

    /// Checks what the CA says that each account needs.
    async fn check_wants(&self, new: &NewAccount) -> Result<(), Fault> {
        let meta = self.endpoints().await?.meta;
        if let (Some(terms), false) = (&meta.terms_of_service, new.agree) {
            let why = format!("the CA asks for agreement to {terms}");
            return Err(Fault::Setting { key: "agree", why });
        }
        if meta.external_account_required && new.external.is_none() {
            let why = "the CA asks for an external account: eab_id and eab_key".into();
            return Err(Fault::Setting { key: "eab_id", why });
        }
        Ok(())
    }
}

/// Names the settings of the external account in a refusal of the account: CAs differ in
/// how they say that it is wrong, some by an error of their own.
fn blame_external(mut fault: Fault) -> Fault {
    let Fault::Refused {
        status, problem, ..
    } = &mut fault
    else {
        return fault;
    };
    match (problem.as_deref(), *status) {
        (Some(problem), 400..=403) => {
            let why = format!("the CA refuses this external account (eab_id, eab_key): {problem}");
            let key = "eab_key";
            return Fault::Setting { key, why };
        }
        (None, ..500) => return fault,
        _ => {}
    }
    let problem = problem.get_or_insert_default();
    let said = match problem.detail.is_empty() {
        true => format!("it answered {status}"),
        false => std::mem::take(&mut problem.detail),
    };
    problem.detail = format!("{said} (are eab_id and eab_key right?)");
    fault
}

fn external_key(external: &ExternalAccount) -> Result<ExternalAccountKey, Fault> {
    let key = mac_key(external).map_err(|why| Fault::Setting {
        key: "eab_key",
        why,
    })?;
    Ok(ExternalAccountKey::new(external.id.clone(), key.expose()))
}

pub(super) fn mac_key(external: &ExternalAccount) -> Result<Secret, String> {
    let text = external.key.expose().trim_ascii();
    let padding = text.iter().rev().take_while(|&&byte| byte == b'=').count();
    let key = BASE64URL_NOPAD.decode(&text[..text.len() - padding]);
    key.map(Secret::new)
        .map_err(|_| "it is not base64url".into())
}
