//! Has a FastCGI server run a script.

use http::{Request, Response};
use http_body::Body as _;

use super::{Sending, Unanswered, is_refusal};
use crate::cgi::Complaints;
use crate::upstream::answer::arriving::Arriving;
use crate::upstream::connections::fastcgi::{FastCgi, record};
use crate::upstream::conversation::length;
use crate::upstream::request::upload::Upload;

impl Sending<'_> {
    /// Has a FastCGI server run the script.
    pub(super) async fn run(
        &self,
        connection: &mut FastCgi,
        keep: bool,
        request: Request<Upload>,
    ) -> Result<Response<Arriving>, Unanswered> {
        let script = self.script.expect("only scripts go to FastCGI servers");
        let (head, upload) = request.into_parts();
        let is_bodiless = upload.is_end_stream();
        let length = length(&upload, &head.headers);
        let mut params = Vec::with_capacity(PARAMS);
        let of = (&head.method, &head.headers);
        script.params(of, length, self.context, |name, value| {
            record::pair(&mut params, name, value);
        });
        let whose = (self.context.host, self.context.tenant);
        let log_limits = &self.worker.upstreams.hosts.log_limits;
        let complaints = Complaints::new(log_limits, whose, script.file);
        let mut conversation = Box::new(connection.begin(&params, upload, keep, complaints));
        match conversation.ask(connection, &head.method).await {
            Ok(response) => Ok(response.map(|()| Arriving::Script(conversation, None))),
            Err(error) => {
                let is_kept = is_bodiless && is_refusal(&error);
                let request = is_kept.then(|| Request::from_parts(head, Upload::default()));
                Err(Unanswered {
                    error,
                    request: request.map(Box::new),
                })
            }
        }
    }
}

/// Bytes of the parameters of a script that most requests need no more than.
const PARAMS: usize = 1 << 10;
