//! A lock with many readers or one writer, `InterProcessReadWriteLock`: an atlas of two pages that must belong
//! together.
//!
//! Without `--id` it plays a scenario and ends: three readers read the atlas while an editor writes new editions, one
//! page after the other. With `--id NAME` it is one reader on a real ensemble, or with `--write` an editor: start
//! several of them in terminals, and end or stop the one that writes.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, count, println, tell_connection, until};
use zookeeper_recipes::read_write_lock::{InterProcessReadWriteLock, WriteGuard};
use zookeeper_recipes::{Client, CreateMode};

/// A lock with many readers or one writer.
#[derive(Parser, Debug)]
#[command(name = "read_write_lock")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the lock
    #[arg(long, default_value = "/examples/read-write-lock", value_parser = recipes_examples::path)]
    path: String,
    /// Run as one reader with this name on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long, value_name = "NAME", value_parser = recipes_examples::name())]
    id: Option<String>,
    /// With --id: run as an editor instead
    #[arg(long, requires = "id")]
    write: bool,
}

const LOCK: (&str, &str) =
    ("", "the lock: a znode for each reader and writer that holds it or waits for it, ephemeral");
const PAGES: [(&str, &str); 2] =
    [("-left", "the left page, ephemeral"), ("-right", "the right page of the same edition, ephemeral")];

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        match &self.id {
            Some(_) => Znodes { path: &self.path, shared_by: Some("--id"), uses: &[LOCK] },
            None => Znodes { path: &self.path, shared_by: None, uses: &[LOCK, PAGES[0], PAGES[1]] },
        }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    match &options.id {
        Some(id) if options.write => stage.play(edit_alone(&stage, &options.path, id)).await,
        Some(id) => stage.play(read_alone(&stage, &options.path, id)).await,
        None => stage.play(scenario(&stage, &stage.own_path(&options.path))).await,
    }
}

/// Runs one reader in a process of its own: two seconds with the lock, one without.
async fn read_alone(stage: &Stage, path: &str, id: &str) -> Result<()> {
    let lock = lock_alone(stage, path, id).await?;
    println!("{id}: reads under the lock at {path} again and again (Ctrl-C to end)");
    loop {
        let guard = lock.read().acquire().await?;
        println!("{id}: I READ, and so may others");
        match guard.run(tokio::time::sleep(Duration::from_secs(2))).await {
            Ok(()) => println!("{id}: I have read"),
            Err(lost) => println!("{id}: {lost}; I stop at once"),
        }
        // After a loss this is an error, because there is nothing to release; dropping the guard would be enough.
        if let Err(error) = guard.release().await {
            println!("{id}: {error}");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Runs one editor in a process of its own: two seconds to write, one to read what was written, one without the lock.
async fn edit_alone(stage: &Stage, path: &str, id: &str) -> Result<()> {
    let lock = lock_alone(stage, path, id).await?;
    println!("{id}: writes under the lock at {path} again and again (Ctrl-C to end)");
    loop {
        let guard = lock.write().acquire().await?;
        println!("{id}: I WRITE, alone, with fencing token {}", guard.fencing_token());
        if let Err(lost) = guard.run(tokio::time::sleep(Duration::from_secs(2))).await {
            println!("{id}: {lost}; I stop at once");
            continue;
        }
        match guard.downgrade().await {
            Ok(guard) => {
                println!("{id}: I have written, and READ it again beside others");
                let _ = guard.run(tokio::time::sleep(Duration::from_secs(1))).await;
            }
            Err(error) => println!("{id}: {error}"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn lock_alone(stage: &Stage, path: &str, id: &str) -> Result<InterProcessReadWriteLock> {
    println!("{id}: connecting to {stage}");
    let client = stage.connect().await?;
    tell_connection(&client, id);
    Ok(InterProcessReadWriteLock::builder(&client, path).data(id).build()?)
}

const READERS: [&str; 3] = ["alice", "bob", "carol"];
const EDITOR: &str = "dave";
const EDITIONS: u32 = 4;
const READINGS: usize = 6;

/// What all share.
struct Atlas<'a> {
    stage: &'a Stage,
    lock: &'a str,
    pages: [String; 2],
    reading: AtomicUsize,
    most_reading: AtomicUsize,
    readings: AtomicUsize,
    torn: AtomicUsize,
}

/// Three readers read an atlas while an editor writes four editions of it.
async fn scenario(stage: &Stage, lock: &str) -> Result<()> {
    println!("Three readers, an editor and a lock at {lock}, on {stage}\n");
    let client = stage.connect().await?;
    let pages = PAGES.map(|(page, _)| format!("{lock}{page}"));
    if let Some((parent, _)) = lock.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
        client.create_containers(parent).await?;
    }
    for page in &pages {
        client.create(page, "edition 0", CreateMode::Ephemeral).await?;
    }
    let [reading, most_reading, readings, torn] = [0; 4].map(AtomicUsize::new);
    let atlas = Atlas { stage, lock, pages, reading, most_reading, readings, torn };
    let readers = futures::future::try_join_all(READERS.map(|reader| read(&atlas, reader)));
    until(async { futures::try_join!(readers, edit(&atlas)) }).await??;
    tell(&atlas)
}

/// Runs one reader, and checks that both pages are of one edition.
async fn read(atlas: &Atlas<'_>, reader: &'static str) -> Result<()> {
    let client = atlas.stage.connect().await?;
    let lock = InterProcessReadWriteLock::builder(&client, atlas.lock).data(reader).build()?;
    for _ in 0..READINGS {
        let guard = lock.read().acquire().await?;
        let together = atlas.reading.fetch_add(1, Ordering::SeqCst) + 1;
        atlas.most_reading.fetch_max(together, Ordering::SeqCst);
        // Once the lock is lost, the reading is dropped at the next await that has to wait.
        let pages = guard.run(both_pages(atlas, &client)).await;
        atlas.reading.fetch_sub(1, Ordering::SeqCst);
        let [left, right] = pages??;
        atlas.readings.fetch_add(1, Ordering::SeqCst);
        if left == right {
            println!("{reader:>6} reads {left}");
        } else {
            atlas.torn.fetch_add(1, Ordering::SeqCst);
            println!("{reader:>6} READS {left} ON THE LEFT AND {right} ON THE RIGHT");
        }
        guard.release().await?;
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    Ok(())
}

async fn both_pages(atlas: &Atlas<'_>, client: &Client) -> Result<[String; 2]> {
    let left = client.get(&atlas.pages[0]).await?.0;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let right = client.get(&atlas.pages[1]).await?.0;
    Ok([left, right].map(|page| String::from_utf8_lossy(&page).into_owned()))
}

/// Runs the editor, which writes one page after the other, and then reads what it has written, beside the readers.
async fn edit(atlas: &Atlas<'_>) -> Result<()> {
    let client = atlas.stage.connect().await?;
    let lock = InterProcessReadWriteLock::builder(&client, atlas.lock).data(EDITOR).build()?;
    for edition in 1..=EDITIONS {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let guard = lock.write().acquire().await?;
        guard.run(write(atlas, &client, &guard, edition)).await??;
        println!("{EDITOR:>6} has written edition {edition}");
        // No other editor can write in between, and waiting readers are admitted.
        let guard = guard.downgrade().await?;
        let pages = guard.run(both_pages(atlas, &client)).await??;
        if pages != [0, 1].map(|_| format!("edition {edition}")) {
            return Err(format!("{pages:?} is not what the editor has written").into());
        }
        guard.release().await?;
    }
    Ok(())
}

async fn write(atlas: &Atlas<'_>, client: &Client, guard: &WriteGuard, edition: u32) -> Result<()> {
    for page in &atlas.pages {
        // The ensemble refuses the write once another participant can hold the lock.
        let write = client.transaction().check(&guard.fence()).set_data(page, format!("edition {edition}"), None);
        write.commit().await?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Prints what was counted, and checks it.
fn tell(atlas: &Atlas<'_>) -> Result<()> {
    let [most, readings, torn] =
        [&atlas.most_reading, &atlas.readings, &atlas.torn].map(|counted| counted.load(Ordering::SeqCst));
    println!("\nUp to {} read together.", count(most, "reader", "readers"));
    println!("{EDITIONS} editions, {readings} readings, {torn} torn.");
    let expected = (READERS.len() * READINGS, 0);
    if (readings, torn) != expected {
        return Err(format!("{} readings and {} torn were expected", expected.0, expected.1).into());
    }
    Ok(())
}
