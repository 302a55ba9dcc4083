//! A copy that is made while others write.

use super::*;

#[tokio::test]
async fn a_copy_is_of_one_state_and_another_log() {
    let folder = Folder::new();
    let store = folder.create();
    for number in 1..=50 {
        let name = format!("h{number}.example");
        store
            .write(Batch::unchecked(host_with(&name, number, sealed)))
            .await
            .unwrap();
    }
    let to = folder.0.path().join("backup.db");
    // Each write is of two hosts: a copy has both of a pair, or none.
    let (backed, ()) = tokio::join!(store.backup(&to), async {
        for number in 0..50 {
            let mut pair = host_with(&format!("a{number}.example"), 100 + 2 * number, sealed);
            pair.extend(host_with(
                &format!("b{number}.example"),
                101 + 2 * number,
                sealed,
            ));
            store.write(Batch::unchecked(pair)).await.unwrap();
        }
    });
    backed.unwrap();
    let copy = Sqlite::open(&to, Mode::Existing).unwrap();
    assert_eq!(copy.id().await.unwrap(), store.id().await.unwrap());
    let (was, is) = (store.head().await.unwrap(), copy.head().await.unwrap());
    assert_ne!(was.log, is.log);
    assert!(is.number <= was.number);
    assert!(finds(&copy, "h50.example").await);
    for number in 0..50 {
        let both = [format!("a{number}.example"), format!("b{number}.example")];
        assert_eq!(finds(&copy, &both[0]).await, finds(&copy, &both[1]).await);
    }
    // An existing file is not written over.
    assert!(store.backup(&to).await.is_err());
}
