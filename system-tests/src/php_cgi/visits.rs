//! Visits of the application: each asks for something, and knows the right answer.

use std::fs;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Collected};
use serde_json::{Map, Value};

use super::client::{Answer, Client, Outgoing, in_pieces, whole};
use super::counts::{Fault, Judged};

/// What a client does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Visit {
    /// Page of 600 bytes
    Page,
    /// Login, and later visits of the session
    Session,
    /// Path that only the front controller has
    Route,
    /// Path behind a script, whose parameters are compared
    Params,
    /// Body with a length
    Upload,
    /// Body without a length
    Pieces,
    /// File, which no script serves
    File,
    /// Body of 50 MB
    LargeUpload,
    /// Body of 50 MB that the script does not read
    Unread,
    /// File of 20 MB in a form
    Form,
    /// Answer of 20 MB
    Download,
    /// Answer whose pieces the script writes one by one
    Events,
}

impl Visit {
    pub(super) const LIGHT: [Self; 7] = [
        Self::Page,
        Self::Session,
        Self::Route,
        Self::Params,
        Self::Upload,
        Self::Pieces,
        Self::File,
    ];
    pub(super) const TRANSFERS: [Self; 5] = [
        Self::LargeUpload,
        Self::Unread,
        Self::Form,
        Self::Download,
        Self::Events,
    ];
}

impl Client<'_> {
    pub(super) async fn visit(&mut self, visit: Visit) -> Judged {
        match visit {
            Visit::Page => self.page().await,
            Visit::Session => self.session().await,
            Visit::Route => self.route().await,
            Visit::Params => self.params().await,
            Visit::Upload => self.upload(&self.pattern(100_000), whole).await,
            Visit::Pieces => {
                self.upload(&self.pattern(200_000), |it| in_pieces(&it))
                    .await
            }
            Visit::File => self.file().await,
            Visit::LargeUpload => self.upload(&self.pattern(50_000_000), whole).await,
            Visit::Unread => self.unread().await,
            Visit::Form => self.form().await,
            Visit::Download => self.download().await,
            Visit::Events => self.events().await,
        }
    }

    pub(super) async fn page(&mut self) -> Judged {
        let answer = self.get("/page.php").await?;
        self.judge_page(&answer)
    }

    fn judge_page(&self, answer: &Answer) -> Judged {
        let text = format!("page of {} for {}\n", self.tenant.name, answer.nonce);
        answer.is(200, format!("{text:.<600}").as_bytes())
    }

    /// Logs in, or goes on with the session.
    async fn session(&mut self) -> Judged {
        let told = self.login().await;
        if told.is_err() {
            // The visit may have counted.
            self.session = None;
        }
        told
    }

    async fn login(&mut self) -> Judged {
        let name = self.tenant.name;
        let (answer, visits) = match &self.session {
            Some((cookie, visits)) => {
                let (asking, visits) =
                    (Request::get("/login.php").header("cookie", cookie), *visits);
                (self.ask(asking, whole(Bytes::new())).await?, visits)
            }
            None => {
                let form = format!("name=alice&password=alice+at+{name}");
                let asking = Request::post("/login.php")
                    .header("content-type", "application/x-www-form-urlencoded");
                (self.ask(asking, whole(form.into())).await?, 0)
            }
        };
        let text = format!("alice at {name}, visit {}\n", visits + 1);
        answer.is(200, text.as_bytes())?;
        let cookie = match self.session.take() {
            Some((cookie, _)) => cookie,
            None => cookie_of(&answer)?,
        };
        self.session = Some((cookie, visits + 1));
        Ok(())
    }

    async fn route(&mut self) -> Judged {
        let answer = self.get("/articles/7?page=2").await?;
        let text = format!("route /articles/7?page=2 of {}\n", self.tenant.name);
        answer.is(200, text.as_bytes())
    }

    /// Compares the parameters with what the client sent, some of it forged.
    async fn params(&mut self) -> Judged {
        let asking = Request::get("/params.php/some/info?a=b")
            .header("proxy", FORGED)
            .header("x_tenant", FORGED)
            .header("script.filename", FORGED)
            .header("x-forwarded-for", "192.0.2.66");
        let answer = self.ask(asking, whole(Bytes::new())).await?;
        let told: Value = serde_json::from_slice(&answer.body)
            .map_err(|_| Fault::Wrong(format!("told {}", answer.start())))?;
        let script = self.setting.www(self.tenant).join("public/params.php");
        let from = self.from.to_string();
        for (name, want) in [
            ("PATH_INFO", "/some/info"),
            ("QUERY_STRING", "a=b"),
            ("REQUEST_URI", "/params.php/some/info?a=b"),
            ("SCRIPT_NAME", "/params.php"),
            ("SCRIPT_FILENAME", &script.to_string_lossy()),
            ("SERVER_NAME", self.host()),
            ("REMOTE_ADDR", &from),
            ("HTTP_X_FORWARDED_FOR", &from),
            ("HTTP_X_NONCE", &answer.nonce),
            ("HTTPS", "on"),
        ] {
            let value = &told["server"][name];
            if value != want {
                return Err(Fault::Wrong(format!("{name} is {value}, not {want}")));
            }
        }
        for map in [&told["server"], &told["environment"]] {
            let forged = map.as_object().and_then(forged);
            if let Some(forged) = forged {
                return Err(Fault::Wrong(format!("a forged {forged}")));
            }
        }
        Ok(())
    }

    /// Sends a body, and compares what the script got of it.
    async fn upload(&mut self, body: &Bytes, make: impl Fn(Bytes) -> Outgoing) -> Judged {
        let asking =
            Request::post("/upload.php").header("content-type", "application/octet-stream");
        let answer = self.ask(asking, make(body.clone())).await?;
        answer.is(200, receipt(body).as_bytes())
    }

    async fn unread(&mut self) -> Judged {
        let asking = Request::post("/page.php").header("content-type", "application/octet-stream");
        let body = self.pattern(50_000_000);
        let answer = self.ask(asking, whole(body)).await?;
        self.judge_page(&answer)
    }

    async fn form(&mut self) -> Judged {
        let file = self.pattern(20_000_000);
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
        );
        let end = format!("\r\n--{BOUNDARY}--\r\n");
        let body = [head.as_bytes(), &file, end.as_bytes()].concat();
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let asking = Request::post("/upload.php").header("content-type", kind);
        let answer = self.ask(asking, whole(body.into())).await?;
        answer.is(200, receipt(&file).as_bytes())
    }

    async fn download(&mut self) -> Judged {
        let answer = self.get("/download.php").await?;
        let (name, nonce) = (self.tenant.name, &answer.nonce);
        let filled = vec![b'.'; 1 << 20];
        let mut blocks = answer.body.chunks(filled.len()).enumerate();
        let right = blocks.all(|(number, block)| {
            let text = format!("block {number} of {name} for {nonce}\n");
            let rest = block.strip_prefix(text.as_bytes());
            rest.is_some_and(|rest| filled.starts_with(rest))
        });
        match right && answer.body.len() == 20 << 20 {
            true => Ok(()),
            false => Err(Fault::Wrong(format!(
                "a download of {} bytes",
                answer.body.len()
            ))),
        }
    }

    /// Lets the script write an event once the one before has come.
    async fn events(&mut self) -> Judged {
        let asking = Request::get("/events.php");
        let (response, nonce) = self.begin(asking, whole(Bytes::new())).await?;
        let mut body = response.into_body();
        let (mut received, mut wanted) = (Vec::new(), String::new());
        for event in 0..EVENTS {
            wanted += &format!("data: {event} of {} for {nonce}\n\n", self.tenant.name);
            while received.len() < wanted.len() {
                let Some(Ok(frame)) = body.frame().await else {
                    return Err(Fault::Away("a stream broke off".to_owned()));
                };
                received.extend(frame.into_data().unwrap_or_default());
            }
            if received != wanted.as_bytes() {
                let text = String::from_utf8_lossy(&received).into_owned();
                return Err(Fault::Wrong(format!("events {text:?}, not {wanted:?}")));
            }
            let told = self.setting.www(self.tenant).join("go");
            let told = told.join(format!("{nonce}.{}", event + 1));
            fs::write(told, "").map_err(|error| Fault::Wrong(error.to_string()))?;
        }
        let rest = body.collect().await;
        match rest.map(Collected::to_bytes) {
            Ok(rest) if rest.is_empty() => Ok(()),
            more => Err(Fault::Wrong(format!("behind the last event {more:?}"))),
        }
    }

    async fn file(&mut self) -> Judged {
        let (response, _) = self
            .send(Request::get("/style.css"), whole(Bytes::new()))
            .await?;
        let status = response.status();
        let body = response.into_body().collect().await;
        let body = body
            .map_err(|error| Fault::Away(error.to_string()))?
            .to_bytes();
        let text = format!("static page of {}\n", self.tenant.name);
        match status == 200 && body == text {
            true => Ok(()),
            false if body.starts_with(b"static page of") => {
                Err(Fault::Crossed(format!("{body:?}")))
            }
            false => Err(Fault::Wrong(format!("a file: {status} {body:?}"))),
        }
    }

    /// Makes bytes that no other request of this client sends.
    fn pattern(&self, length: usize) -> Bytes {
        let text = format!("{} {:?} {}\n", self.tenant.name, self.from, self.asked());
        // One copy of a long text: the clients share a thread.
        let mut text = text.repeat(length / text.len() + 1);
        text.truncate(length);
        text.into()
    }
}

fn cookie_of(answer: &Answer) -> Result<String, Fault> {
    let cookies = answer.fields.get_all("set-cookie").iter();
    let mut cookies = cookies.filter_map(|cookie| cookie.to_str().ok()?.split(';').next());
    let cookie = cookies.rfind(|cookie| cookie.starts_with("PHPSESSID="));
    let cookie = cookie.ok_or_else(|| Fault::Wrong("a login without a cookie".to_owned()))?;
    Ok(cookie.to_owned())
}

/// Returns a parameter that a client made up.
fn forged(params: &Map<String, Value>) -> Option<&String> {
    let is_forged = |(name, value): &(&String, &Value)| {
        let text = value.as_str().unwrap_or_default();
        *name == "HTTP_PROXY" || text.contains(FORGED) || text.contains("192.0.2.66")
    };
    params.iter().find(is_forged).map(|(name, _)| name)
}

fn receipt(body: &[u8]) -> String {
    let digest = digest(&SHA256, body);
    let digits: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{} {digits}\n", body.len())
}

const FORGED: &str = "http://forged.example";
const BOUNDARY: &str = "4c5d2f0e8b";
/// Events of a stream, as the script has them.
const EVENTS: u32 = 5;
