//! A queue with `DistributedQueue`: producers, workers, and a worker that crashes before its work is done.
//!
//! Without further options it plays a scenario and ends. With `--producer NAME` or `--worker NAME` it is one process
//! of several on a real ensemble; start them in several terminals, and stop or kill some. `--dead-letters` shows the
//! parcels that no worker could ship.

mod processes;
mod scenario;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes};

/// A queue with DistributedQueue.
#[derive(Parser, Debug)]
#[command(name = "distributed_queue")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the queue
    #[arg(long, default_value = "/examples/distributed-queue", value_parser = recipes_examples::path)]
    path: String,
    /// Run as a producer with this name on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long, value_name = "NAME", value_parser = recipes_examples::name(), group = "process")]
    producer: Option<String>,
    /// Run as a worker with this name on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long, value_name = "NAME", value_parser = recipes_examples::name(), group = "process")]
    worker: Option<String>,
    /// List, retry or drop the dead letters on a real ensemble [default without ACTION: list]
    #[arg(long, value_name = "ACTION", num_args = 0..=1, default_missing_value = "list", group = "process")]
    dead_letters: Option<DeadLetters>,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum DeadLetters {
    List,
    Retry,
    Drop,
}

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        let options = [
            ("--producer", self.producer.is_some()),
            ("--worker", self.worker.is_some()),
            ("--dead-letters", self.dead_letters.is_some()),
        ];
        Znodes {
            path: &self.path,
            shared_by: options.into_iter().find_map(|(option, given)| given.then_some(option)),
            uses: &[
                ("", "the parcels, in order: queue-0000000000, ..."),
                ("-claims", "the claims of the workers, ephemeral"),
                ("-producers", "a znode for each producer, ephemeral"),
                ("-dead", "the dead letters"),
            ],
        }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    let path = &options.path;
    if let Some(id) = &options.producer {
        return stage.play_until_asked(|asked| processes::produce(&stage, path, id, asked)).await;
    }
    if let Some(id) = &options.worker {
        return stage.play_until_asked(|asked| processes::work(&stage, path, id, asked)).await;
    }
    if let Some(action) = options.dead_letters {
        return stage.play(processes::dead_letters(&stage, path, action)).await;
    }
    stage.play(scenario::play(&stage, &stage.own_path(path))).await
}
