//! Names of the fields that tell each upstream a host's tenant and a client's certificate.

use http::HeaderName;

use super::check::field_name;
use super::fields::FieldOps;
use crate::site::reserved::{folded, folds_to};

/// Names of `[sites] tenant_field` and `certificate_field`. The server sets or removes
/// both towards every upstream: a name of a site's own choice would pass from the
/// clients of all other sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFields {
    pub(crate) tenant: Option<HeaderName>,
    pub(crate) certificate: Option<HeaderName>,
}

impl NamedFields {
    /// Checks the two names.
    ///
    /// # Errors
    /// The key that is wrong, with the problem and what to write.
    pub fn check(
        tenant: Option<&str>,
        certificate: Option<&str>,
    ) -> Result<Self, (&'static str, String)> {
        let name = |key, text: Option<&str>| {
            let name = text.map(chosen).transpose();
            name.map_err(|problem| (key, problem))
        };
        let fields = Self {
            tenant: name(TENANT, tenant)?,
            certificate: name(CERTIFICATE, certificate)?,
        };
        match (&fields.tenant, &fields.certificate) {
            (Some(one), Some(other)) if folds_to(one.as_str(), other.as_str()) => {
                Err((CERTIFICATE, format!("`{TENANT}` has that name")))
            }
            _ => Ok(fields),
        }
    }

    /// Returns the key whose field a recipient may read this name as.
    pub(crate) fn key_of(&self, name: &str) -> Option<&'static str> {
        let is = |field: &Option<HeaderName>| {
            let field = field.as_ref();
            field.is_some_and(|field| folds_to(field.as_str(), name))
        };
        match () {
            () if is(&self.tenant) => Some(TENANT),
            () if is(&self.certificate) => Some(CERTIFICATE),
            () => None,
        }
    }

    /// Returns the first name that these changes of a request share with one of the
    /// fields, and the field's key.
    pub(super) fn changed_by(&self, request: &FieldOps) -> Option<(HeaderName, &'static str)> {
        let pairs = request.set.iter().chain(&request.add);
        let mut names = request.remove.iter().chain(pairs.map(|(name, _)| name));
        names.find_map(|name| Some((name.clone(), self.key_of(name.as_str())?)))
    }
}

/// Returns whether a key of a document is one of earlier documents, and stands in the
/// configuration since.
pub(super) fn is_moved(key: &[String]) -> bool {
    let [.., above, key] = key else { return false };
    above == "upstream" && (key == TENANT || key == CERTIFICATE)
}

/// Checks the name of a field that only the server sets.
fn chosen(text: &str) -> Result<HeaderName, String> {
    let name = field_name(text).map_err(|wrong| wrong.problem().to_owned())?;
    let is_taken = folded(name.as_str()).is_some() || OF_CLIENTS.contains(&name.as_str());
    match is_taken {
        true => Err(format!("{name} says something else; choose another name")),
        false => Ok(name),
    }
}

/// Fields that clients send and applications need: a client's own would be removed.
const OF_CLIENTS: [&str; 12] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "authorization",
    "content-encoding",
    "content-type",
    "cookie",
    "origin",
    "range",
    "referer",
    "upgrade",
    "user-agent",
];

const TENANT: &str = "tenant_field";
const CERTIFICATE: &str = "certificate_field";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_means_something_else_is_refused() {
        for (tenant, certificate, wrong) in [
            ("X-Tenant", "Client-Cert", None),
            ("X-Forwarded-For", "Client-Cert", Some(TENANT)),
            ("X-Forwarded-Tenant", "Client-Cert", Some(TENANT)),
            ("Client-IP", "Client-Cert", Some(TENANT)),
            ("X_Forwarded_For", "Client-Cert", Some(TENANT)),
            ("Cookie", "Client-Cert", Some(TENANT)),
            ("X Tenant", "Client-Cert", Some(TENANT)),
            ("X-Tenant", "Host", Some(CERTIFICATE)),
            ("X-Tenant", "x_tenant", Some(CERTIFICATE)),
        ] {
            let checked = NamedFields::check(Some(tenant), Some(certificate));
            let key = checked.err().map(|(key, _)| key);
            assert_eq!(key, wrong, "{tenant}, {certificate}");
        }
        assert_eq!(
            NamedFields::check(None, None).unwrap().key_of("x-tenant"),
            None
        );
    }
}
