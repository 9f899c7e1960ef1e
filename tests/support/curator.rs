//! A JVM with Curator's own code, from Debian's packages of it.

use std::path::Path;
use std::process::Command;

/// Where Debian keeps Java's libraries, and which of them Curator needs.
const JARS: &str = "/usr/share/java";
const NEEDED: [&str; 12] = [
    "curator-recipes",
    "curator-x-discovery",
    "curator-framework",
    "curator-client",
    "zookeeper",
    "zookeeper-jute",
    "guava",
    "jackson-core",
    "jackson-databind",
    "jackson-annotations",
    "slf4j-api",
    "slf4j-nop",
];
/// Debian's packages with all these.
const PACKAGES: &str = "libcurator-recipes-java libcurator-discovery-java default-jdk-headless";

/// Returns the command that compiles and runs this Java program beside Curator, or what is missing for that.
pub fn java(program: &str) -> Result<Command, String> {
    let jars: Vec<String> = NEEDED.iter().map(|name| format!("{JARS}/{name}.jar")).collect();
    if let Some(missing) = jars.iter().find(|jar| !Path::new(jar).exists()) {
        return Err(format!("there is no {missing}; apt-get install {PACKAGES}"));
    }
    // Another version, or a part of one, for a trial by hand.
    let first = std::env::var("CURATOR_CLASSES").into_iter();
    let mut java = Command::new("java");
    java.args(["-cp", &first.chain(jars).collect::<Vec<_>>().join(":"), program]);
    Ok(java)
}
