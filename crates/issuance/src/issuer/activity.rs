//! Work under way in this process, and the stop of more.

use tokio::sync::watch;

/// Count of works under way, and whether renewal has stopped.
#[derive(Debug)]
pub(super) struct Activity {
    is_stopped: watch::Sender<bool>,
    busy: watch::Sender<usize>,
}

/// Work under way; dropping it ends the work.
#[derive(Debug)]
pub(super) struct Busy(watch::Sender<usize>);

impl Activity {
    /// Stops renewal; again without effect.
    pub(super) fn stop(&self) {
        self.is_stopped.send_replace(true);
    }

    #[cfg(test)]
    pub(super) fn is_busy(&self) -> bool {
        *self.busy.borrow() > 0
    }

    /// Begins work, stopped or not: somebody waits for it.
    pub(super) fn begin(&self) -> Busy {
        self.busy.send_modify(|busy| *busy += 1);
        Busy(self.busy.clone())
    }

    /// Begins to renew; none once it has stopped. The count comes before the look, so that
    /// [`Self::ended`], which looks in the other order, misses no work.
    pub(super) fn begin_renewal(&self) -> Option<Busy> {
        let busy = self.begin();
        (!*self.is_stopped.borrow()).then_some(busy)
    }

    /// Waits until renewal is to stop.
    pub(super) async fn stopped(&self) {
        wait(&self.is_stopped, |is_stopped| *is_stopped).await;
    }

    /// Waits until renewal has stopped and no work is under way.
    pub(super) async fn ended(&self) {
        self.stopped().await;
        wait(&self.busy, |busy| *busy == 0).await;
    }
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            is_stopped: watch::Sender::new(false),
            busy: watch::Sender::new(0),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.send_modify(|busy| *busy -= 1);
    }
}

async fn wait<T>(value: &watch::Sender<T>, is_met: impl FnMut(&T) -> bool) {
    let met = value.subscribe().wait_for(is_met).await.map(drop);
    met.expect("its sender is borrowed");
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn it_has_ended_once_it_was_stopped_and_the_last_work_is_over() {
        let activity = Activity::default();
        assert!(!activity.is_busy());
        let renewal = activity.begin_renewal().unwrap();
        let visit = activity.begin();
        assert!(activity.is_busy());
        activity.stop();
        activity.stop();
        assert!(activity.begin_renewal().is_none());
        drop(renewal);
        assert!(activity.ended().now_or_never().is_none());
        let late = activity.begin();
        drop(visit);
        assert!(activity.ended().now_or_never().is_none());
        drop(late);
        activity.ended().await;
        assert!(!activity.is_busy());
    }

    #[tokio::test]
    async fn without_a_stop_it_never_ends() {
        let activity = Activity::default();
        drop(activity.begin());
        assert!(activity.ended().now_or_never().is_none());
    }
}
