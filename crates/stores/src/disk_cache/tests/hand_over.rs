//! The file goes to the process that takes over, and back if that one fails.

use super::*;

impl Rig {
    /// Starts a server that takes over the lock of this one.
    async fn heir(&self, old: &Server) -> Server {
        self.server_on(ring(), async |seen| {
            let lock = old.disk.lock_descriptor().unwrap();
            let disk = DiskCache::inherit(&self.options(), lock, seen.clone(), &Handle::current());
            Arc::new(disk.unwrap())
        })
        .await
        .unwrap()
    }

    fn refused(&self) -> bool {
        let opened = DiskCache::open(&self.options(), Arc::default(), &Handle::current());
        opened.is_err_and(|why| why.to_string().contains("another server uses"))
    }
}

#[tokio::test]
async fn the_file_goes_to_the_heir_and_the_lock_with_it() {
    let rig = Rig::new();
    rig.put("a.example").await;
    rig.put("b.example").await;
    let old = rig.following().await;
    assert_eq!(old.who("a.example").await, "a.example");
    old.kept(1).await;
    // Not written yet when the cache is suspended.
    assert_eq!(old.who("b.example").await, "b.example");
    old.disk.suspend().await.unwrap();
    rig.switch.say(away());
    assert_eq!(old.who("a.example").await, AWAY);
    let new = rig.heir(&old).await;
    assert_eq!(new.who("a.example").await, "a.example");
    assert_eq!(new.who("b.example").await, "b.example");
    assert!(rig.refused());
    old.disk.retire().await.unwrap();
    assert_eq!(old.who("a.example").await, AWAY);
    assert!(old.disk.lock_descriptor().is_err());
    // The old one keeps and drops nothing more.
    rig.switch.say(None);
    rig.put("c.example").await;
    assert_eq!(old.who("c.example").await, "c.example");
    old.feed.lock().await.read().await.unwrap();
    new.follow().await;
    new.kept(2).await;
    drop(old);
    assert!(rig.refused(), "the heir has the lock");
    assert_eq!(new.who("c.example").await, "c.example");
    new.kept(3).await;
    drop(new);
    assert_eq!(rig.following().await.disk.stats().copies.get(), 3);
}

#[tokio::test]
async fn a_failed_heir_leaves_what_it_wrote_and_the_old_process_goes_on() {
    let rig = Rig::new();
    for name in ["a.example", "b.example", "c.example"] {
        rig.put(name).await;
    }
    let old = rig.following().await;
    assert_eq!(old.who("a.example").await, "a.example");
    assert_eq!(old.who("b.example").await, "b.example");
    old.kept(2).await;
    old.disk.suspend().await.unwrap();

    let new = rig.heir(&old).await;
    new.follow().await;
    // Both follow the same page: the one drops the copy, the other has no file.
    rig.put("a.example").await;
    old.feed.lock().await.read().await.unwrap();
    new.follow().await;
    assert_eq!(new.who("c.example").await, "c.example");
    new.kept(2).await;
    drop(new);

    old.disk.resume().await.unwrap();
    old.settled().await;
    old.kept(2).await;
    rig.switch.say(away());
    assert_eq!(old.who("a.example").await, AWAY, "it was replaced");
    assert_eq!(old.who("b.example").await, "b.example");
    assert_eq!(old.who("c.example").await, "c.example");
    // It writes again.
    rig.switch.say(None);
    assert_eq!(old.who("a.example").await, "a.example");
    old.kept(3).await;
    rig.put("b.example").await;
    old.follow().await;
    old.kept(2).await;
}

#[tokio::test]
async fn what_changed_while_nobody_had_the_file_answers_no_more() {
    let rig = Rig::new();
    rig.put("a.example").await;
    rig.put("b.example").await;
    let old = rig.following().await;
    assert_eq!(old.who("a.example").await, "a.example");
    old.kept(1).await;
    old.disk.suspend().await.unwrap();
    old.disk.suspend().await.unwrap();
    // Read before the change, and waiting when the file comes back.
    assert_eq!(old.who("b.example").await, "b.example");
    rig.put("a.example").await;
    rig.put("b.example").await;
    old.feed.lock().await.read().await.unwrap();
    old.disk.resume().await.unwrap();
    old.disk.resume().await.unwrap();
    old.settled().await;
    assert_eq!(old.disk.stats().copies.get(), 0);
    rig.switch.say(away());
    assert_eq!(old.who("a.example").await, AWAY);
    assert_eq!(old.who("b.example").await, AWAY);
}

#[tokio::test]
async fn the_file_of_an_heir_with_another_store_is_made_anew() {
    let mut rig = Rig::new();
    rig.put("a.example").await;
    let old = rig.following().await;
    assert_eq!(old.who("a.example").await, "a.example");
    old.kept(1).await;
    old.disk.suspend().await.unwrap();
    rig.store = "another";
    drop(rig.heir(&old).await);
    old.disk.resume().await.unwrap();
    old.settled().await;
    assert_eq!(old.disk.stats().copies.get(), 0);
    assert_eq!(old.who("a.example").await, "a.example");
    old.kept(1).await;
    rig.switch.say(away());
    assert_eq!(old.who("a.example").await, "a.example");
}

/// The heir was to have ended, and has not.
#[tokio::test]
async fn a_file_that_the_heir_has_is_not_taken_from_it() {
    let rig = Rig::new();
    rig.put("a.example").await;
    let old = rig.following().await;
    old.disk.suspend().await.unwrap();
    let new = rig.heir(&old).await;
    let why = old.disk.resume().await.unwrap_err();
    assert!(why.to_string().contains("locked"), "{why}");
    assert_eq!(new.who("a.example").await, "a.example");
    new.follow().await;
    new.kept(1).await;
    drop(new);
    old.disk.resume().await.unwrap();
    old.settled().await;
    old.kept(1).await;
}

#[tokio::test]
async fn the_lock_of_another_path_is_none_of_this_one() {
    let (rig, other) = (Rig::new(), Rig::new());
    let disk = rig.disk(&Arc::default()).await;
    let inherit = |rig: &Rig| {
        let lock = disk.lock_descriptor().unwrap();
        DiskCache::inherit(&rig.options(), lock, Arc::default(), &Handle::current())
    };
    let taken = inherit(&other).unwrap();
    assert!(other.refused());
    drop(taken);
    // A lock that somebody removed: its open file is not what lies there.
    disk.suspend().await.unwrap();
    std::fs::remove_file(rig.folder.path().join("disk-cache.db.lock")).unwrap();
    let _third = inherit(&rig).unwrap();
    assert!(rig.refused());
}

#[tokio::test]
async fn an_heir_closes_the_lock_when_it_ends_first() {
    let rig = Rig::new();
    let disk = rig.disk(&Arc::default()).await;
    disk.suspend().await.unwrap();
    let lock = disk.lock_descriptor().unwrap();
    drop(lock);
    assert!(rig.refused());
    disk.retire().await.unwrap();
    rig.disk(&Arc::default()).await;
    assert!(disk.resume().await.is_ok(), "it has ended");
    assert!(rig.disk(&Arc::default()).await.position().is_none());
}
