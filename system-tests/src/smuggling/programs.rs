//! CGI programs that note their environment and their standard input.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::params::{faults, seen};
use crate::hosting::Seen;
use crate::hosting::fastcgi::Request;

/// Folder of programs, and that of the requests that they noted.
pub(super) struct Programs {
    root: PathBuf,
    noted: PathBuf,
}

impl Programs {
    /// Writes the programs below a folder.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let [root, noted] = ["programs", "noted"].map(|name| folder.join(name));
        for made in [&root, &noted] {
            fs::create_dir(made)?;
        }
        // One process notes both: each case starts programs.
        fs::write(folder.join("end"), "\0")?;
        let text = PROGRAM
            .replace("NOTED", &noted.to_string_lossy())
            .replace("END", &folder.join("end").to_string_lossy());
        for name in NAMES {
            let program = root.join(name);
            fs::write(&program, &text)?;
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        }
        Ok(Self { root, noted })
    }

    /// Returns the entry of `[sites] allow` for the programs.
    pub(super) fn allow(&self) -> String {
        format!("cgi:{}", self.root.display())
    }

    /// Returns the site whose requests they get.
    pub(super) fn site(&self) -> Value {
        json!({ "root": self.root, "cgi": true })
    }

    /// Returns the requests so far, and what was wrong with their environments.
    pub(super) fn seen(&self) -> Result<(Vec<Seen>, Vec<String>)> {
        let (mut all, mut wrong) = (Vec::new(), Vec::new());
        for noted in fs::read_dir(&self.noted)? {
            let noted = fs::read(noted?.path())?;
            let Some(request) = parse(&noted)? else {
                continue;
            };
            let script = request.param("SCRIPT_NAME").trim_start_matches('/');
            wrong.extend(faults(&request, &self.root.join(script), &["PATH"]));
            all.push(seen(&request));
        }
        Ok((all, wrong))
    }
}

/// Reads the environment and the body that a program noted; none if the server ended the
/// program before, as it does once the client has left. Each byte of the environment is one
/// character.
///
/// # Errors
/// If a variable is none, or is there twice.
fn parse(noted: &[u8]) -> Result<Option<Request>> {
    let Some(end) = noted.windows(2).position(|two| two == b"\0\0") else {
        return Ok(None);
    };
    let mut request = Request {
        body: noted[end + 2..].to_vec(),
        ..Request::default()
    };
    for variable in noted[..end].split(|byte| *byte == 0) {
        let text: String = variable.iter().map(|byte| char::from(*byte)).collect();
        let (name, value) = text.split_once('=').context("a variable without a value")?;
        let earlier = request.params.insert(name.to_owned(), value.to_owned());
        ensure!(earlier.is_none(), "{name} came twice");
    }
    let length = request.param("CONTENT_LENGTH").parse().unwrap_or(0);
    // A program can't tell the end of its body from that of the client.
    request.is_whole = request.body.len() >= length;
    Ok(Some(request))
}

/// Programs by the first segments of the cases' paths.
const NAMES: [&str; 3] = ["case", "canary", "smuggled"];

/// Notes the request, and answers with method, target and length.
const PROGRAM: &str = "#!/bin/sh
cat /proc/$$/environ END - > NOTED/$$
text=\"$REQUEST_METHOD $REQUEST_URI ${CONTENT_LENGTH:-0}\"
printf 'Content-Type: text/plain\\nContent-Length: %s\\n\\n%s\\n' $((${#text} + 1)) \"$text\"
";
