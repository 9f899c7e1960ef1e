//! The basic behaviour of a read-write lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;

use super::fixture::{PATH, gets, line, line_has, lock, reading, setup, waits_to_read, waits_to_write, writing};

#[tokio::test(start_paused = true)]
async fn the_nodes_have_curators_names_and_the_data_given() {
    let (server, [client]) = setup().await;
    let lock = InterProcessReadWriteLock::builder(&client, PATH).data("worker-7").build().expect("good options");
    let one = lock.read().acquire().await.expect("it reads");
    let two = lock.read().acquire().await.expect("it reads");
    assert_eq!(line(&server), ["__READ__0000000000", "__READ__0000000001"]);
    for guard in [&one, &two] {
        let stat = server.stat(guard.node_path()).expect("it exists");
        assert_eq!((stat.czxid, Some(stat.ephemeral_owner)), (guard.fencing_token(), client.session_id()));
        assert_eq!(server.get(guard.node_path()).as_deref(), Some(&b"worker-7"[..]));
        assert_eq!(guard.path(), PATH);
    }
    let participants = lock.participants().await.expect("a list");
    assert_eq!(participants, [one.node_path(), two.node_path()]);
    one.release().await.expect("released");
    two.release().await.expect("released");
    let guard = lock.write().acquire().await.expect("it writes");
    assert_eq!(line(&server), ["__WRIT__0000000002"]);
    assert!(guard.node_path().starts_with(&format!("{PATH}/_c_")));
    guard.release().await.expect("released");
    assert_eq!(line(&server), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn readers_hold_beside_each_other_and_a_writer_alone() {
    let (server, [one, two, three]) = setup().await;
    let readers = [reading(&one).await, reading(&two).await, reading(&two).await];
    assert!(readers.iter().all(|reader| reader.is_held()));
    let writer = waits_to_write(&three).await;
    for reader in readers {
        reader.release().await.expect("released");
    }
    let writer = gets(writer).await;
    let (reader, other) = (waits_to_read(&one).await, waits_to_write(&two).await);
    assert!(writer.is_held());
    drop(writer);
    let reader = gets(reader).await;
    assert!(reader.is_held());
    drop(reader);
    drop(gets(other).await);
    line_has(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn many_readers_and_writers_of_several_clients_exclude_each_other_as_they_must() {
    let (server, clients) = setup::<4>().await;
    // The number of readers, or -1 for a writer.
    let inside = Arc::new(AtomicI64::new(0));
    let most = Arc::new(AtomicI64::new(0));
    let mut tasks = Vec::new();
    for (number, client) in (0..24).zip(clients.iter().cycle()) {
        let (lock, inside, most) = (lock(client), Arc::clone(&inside), Arc::clone(&most));
        tasks.push(server.spawn(client, async move {
            for round in 0..6 {
                if (number + round) % 4 == 0 {
                    let guard = lock.write().acquire().await.expect("it writes");
                    assert_eq!(inside.swap(-1, Ordering::SeqCst), 0, "alone");
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    assert_eq!(inside.swap(0, Ordering::SeqCst), -1, "alone");
                    guard.release().await.expect("it was held");
                } else {
                    let guard = lock.read().acquire().await.expect("it reads");
                    let readers = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(readers > 0, "no writer");
                    most.fetch_max(readers, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    assert!(guard.is_held());
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.expect("it was held");
                }
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    assert!(most.load(Ordering::SeqCst) > 3, "readers were together");
    assert_eq!((server.children(PATH).len(), server.watches()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn work_under_a_guard_runs_while_it_is_held() {
    let (server, [one]) = setup().await;
    let guard = reading(&one).await;
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    let path = guard.node_path().to_owned();
    let run = guard.run(std::future::pending::<()>());
    let delete = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.delete_by_hand(&path).expect("it is there");
    };
    let (run, ()) = futures::join!(run, delete);
    run.expect_err("it was lost");
    assert!(!guard.is_held());
    let guard = writing(&one).await;
    assert_eq!(guard.run(async { 8 }).await, Ok(8));
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_with_each_writer_and_those_of_readers_are_in_between() {
    let (_server, [one, two]) = setup().await;
    let mut before = 0;
    for _ in 0..3 {
        let writer = writing(&one).await;
        let token = writer.fencing_token();
        assert!(token > before);
        drop(writer);
        let readers = [reading(&one).await, reading(&two).await];
        assert!(readers.iter().all(|reader| reader.fencing_token() > token));
        before = readers[1].fencing_token();
    }
}

#[tokio::test(start_paused = true)]
async fn the_fence_of_a_guard_admits_a_write_until_it_is_gone() {
    let (server, [client]) = setup().await;
    server.create_by_hand("/work", "", zookeeper_recipes::CreateMode::Persistent).expect("a new node");
    let (reader, path) = (reading(&client).await, "/work");
    let fence = reader.fence();
    let write = |data: &str| client.transaction().check(&fence).set_data(path, data, None).commit();
    write("1").await.expect("it is held");
    reader.release().await.expect("it was held");
    write("2").await.expect_err("it is gone");
    assert_eq!(server.get(path).as_deref(), Some(&b"1"[..]));
}
