//! A directory without permission.

use zookeeper_recipes::ErrorKind;

use super::fixture::{PATH, lock, setup, waits_to_write, writing};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn without_permission_an_acquire_fails_and_works_when_permitted() {
    let (server, [client]) = setup().await;
    server.deny(PATH);
    let error = within("it fails", SOON, lock(&client).read().acquire()).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    let error = within("it fails", SOON, lock(&client).write().acquire()).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    server.allow(PATH);
    drop(within("it writes", T, lock(&client).write().acquire()).await.expect("it writes"));
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_without_permission_fails_and_releases_the_lock_when_permitted() {
    let (server, [one, two]) = setup().await;
    let writer = writing(&one).await;
    let waiting = waits_to_write(&two).await;
    server.deny(PATH);
    let error = within("it fails", SOON, writer.downgrade()).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoAuth, "{error}");
    tokio::time::sleep(SOON).await;
    server.allow(PATH);
    drop(within("the other writes", T * 4, waiting).await.expect("it writes"));
}
