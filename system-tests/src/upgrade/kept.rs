//! HTTP/1.1 connections that stay open between requests.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use sekisho_bench::load::Failure;
use sekisho_bench::load::client::Client;

use super::field::{Field, Note};
use super::http1::{Connection, Idle, Reading};
use super::setting::{FILES, PAGE};

/// Pool of so many connections, of which the one that is idle longest is used next.
pub(super) struct Pool {
    field: Rc<Field>,
    client: Client,
    most: usize,
    open: Cell<usize>,
    idle: RefCell<VecDeque<Connection>>,
}

impl Pool {
    pub(super) fn new(field: &Rc<Field>, client: Client, most: usize) -> Self {
        Self {
            field: field.clone(),
            client,
            most,
            open: Cell::new(0),
            idle: RefCell::default(),
        }
    }

    /// Sends a request. A connection that the server has ended before is replaced.
    pub(super) async fn request(&self) -> Result<(), Failure> {
        let mut connection = self.take().await?;
        let asked = self.exchange(&mut connection).await;
        if matches!(asked, Ok(true)) {
            self.idle.borrow_mut().push_back(connection);
        } else {
            self.open.set(self.open.get() - 1);
        }
        asked.map(drop)
    }

    /// Returns whether the connection stays open.
    async fn exchange(&self, connection: &mut Connection) -> Result<bool, Failure> {
        let head = connection.ask(FILES, "/").await?;
        connection
            .body(&head, PAGE.as_bytes(), Reading::FAST)
            .await?;
        if head.closes {
            self.field.note(Note::Close);
            connection.closed().await?;
        }
        Ok(!head.closes)
    }

    async fn take(&self) -> Result<Connection, Failure> {
        while self.open.get() >= self.most {
            let longest = self.idle.borrow_mut().pop_front();
            // All are in use: one more is opened.
            let Some(mut connection) = longest else { break };
            match connection.idle() {
                Idle::Open => return Ok(connection),
                Idle::Closed => self.field.note(Note::ClosedIdle),
                Idle::Failed(failure) => {
                    self.open.set(self.open.get() - 1);
                    return Err(failure);
                }
            }
            self.open.set(self.open.get() - 1);
        }
        let connection = Connection::open(&self.client, FILES).await?;
        self.open.set(self.open.get() + 1);
        Ok(connection)
    }
}
