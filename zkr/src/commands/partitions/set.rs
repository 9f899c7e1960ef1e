//! What operators set: pins, drained members, and a rebalance at once.

use serde::Serialize;
use zookeeper_recipes::Client;
use zookeeper_recipes::partition_assigner::{AssignerState, MemberInfo, drain, pin, rebalance, state, undrain, unpin};

use super::{is_empty, of};
use crate::commands::check_exists;
use crate::ending::Ending;
use crate::output::{Output, note, shown};

/// What is to be set.
#[derive(Debug)]
pub enum Setting {
    /// The member gets the partition whenever it is present.
    Pin { partition: String, member: String },
    /// The strategy decides about the partition again.
    Unpin { partition: String },
    /// The member gets nothing.
    Drain { member: String },
    /// The member gets partitions again.
    Undrain { member: String },
    /// What absent members had moves at once.
    Rebalance,
}

/// What was set.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "set", rename_all = "snake_case")]
enum Done<'a> {
    Pin { path: &'a str, partition: &'a str, pinned: Option<&'a str>, before: Option<&'a str> },
    Drain { path: &'a str, member: &'a str, drained: bool, before: bool },
    Rebalance { path: &'a str },
}

/// Sets it, and prints what it was before, which reveals a mistyped name. Prints notes about what has no effect yet.
pub async fn set(client: &Client, output: Output, path: &str, setting: Setting) -> Result<Ending, Ending> {
    // A pin and a drain may come before the first member. Others would only create the nodes of a mistyped path.
    if !matches!(setting, Setting::Pin { .. } | Setting::Drain { .. }) {
        check_exists(client, path).await?;
    }
    let before = state(client, path).await.map_err(of)?;
    let done = setting.carry_out(client, path, &before).await?;
    output.print(done.text(), &done).await?;
    setting.notes(path, &before).iter().for_each(note);
    Ok(Ending::Success)
}

impl Setting {
    async fn carry_out<'a>(
        &'a self,
        client: &Client,
        path: &'a str,
        before: &'a AssignerState,
    ) -> Result<Done<'a>, Ending> {
        let pinned = |name: &str| {
            let partition = before.partitions.iter().find(|partition| partition.name == name);
            partition.and_then(|partition| partition.pinned.as_deref())
        };
        Ok(match self {
            Setting::Pin { partition, member } => {
                pin(client, path, partition, member).await.map_err(of)?;
                Done::Pin { path, partition, pinned: Some(member), before: pinned(partition) }
            }
            Setting::Unpin { partition } => {
                let was_pinned = unpin(client, path, partition).await.map_err(of)?;
                Done::Pin { path, partition, pinned: None, before: pinned(partition).filter(|_| was_pinned) }
            }
            Setting::Drain { member } => {
                let was_drained = find(before, member).is_some_and(|member| member.is_drained);
                drain(client, path, member).await.map_err(of)?;
                Done::Drain { path, member, drained: true, before: was_drained }
            }
            Setting::Undrain { member } => {
                let was_drained = undrain(client, path, member).await.map_err(of)?;
                Done::Drain { path, member, drained: false, before: was_drained }
            }
            Setting::Rebalance => {
                rebalance(client, path).await.map_err(of)?;
                Done::Rebalance { path }
            }
        })
    }

    /// Returns what a person may not expect: a name that nothing has, or a setting that has no effect yet.
    fn notes(&self, path: &str, state: &AssignerState) -> Vec<String> {
        if is_empty(state) {
            return vec![format!("{path} has no members so far; check the path, --namespace and --connect")];
        }
        let mut notes = Vec::new();
        if let Setting::Pin { partition, .. } = self
            && state.partitions.iter().all(|one| one.name != *partition)
        {
            notes.push(format!("no leader has assigned partition {} so far", shown(partition)));
        }
        match (self, self.member()) {
            (_, Some(id)) if find(state, id).is_none_or(|member| !member.is_present) => {
                notes
                    .push(format!("member {} is not present; zkr partitions show {path} shows the members", shown(id)));
            }
            (Setting::Pin { .. }, Some(id)) if find(state, id).is_some_and(|member| member.is_drained) => {
                notes.push(format!("member {} is drained, and gets nothing", shown(id)));
            }
            (Setting::Rebalance, _) if state.leader.is_none() => {
                notes.push("no member leads at the moment, so this has no effect: ask again when one does".to_owned());
                return notes;
            }
            (Setting::Rebalance, _) if state.members.iter().all(|member| member.is_present) => {
                notes.push("no member is away: there is nothing to move".to_owned());
            }
            _ => {}
        }
        if state.leader.is_none() {
            notes.push("no member leads at the moment; the next leader acts on it".to_owned());
        }
        notes
    }

    fn member(&self) -> Option<&str> {
        match self {
            Setting::Pin { member, .. } | Setting::Drain { member } | Setting::Undrain { member } => Some(member),
            Setting::Unpin { .. } | Setting::Rebalance => None,
        }
    }
}

fn find<'a>(state: &'a AssignerState, id: &str) -> Option<&'a MemberInfo> {
    state.members.iter().find(|member| member.id == id)
}

impl Done<'_> {
    fn text(&self) -> String {
        let text = match *self {
            Done::Pin { path, partition, pinned, before } if pinned == before => match pinned {
                Some(member) => format!("{path}: partition {partition} was already pinned to {member}"),
                None => format!("{path}: partition {partition} was not pinned; nothing was written"),
            },
            Done::Pin { path, partition, pinned, before } => {
                let now = pinned.map_or("unpinned".to_owned(), |member| format!("pinned to {member}"));
                let before = before.map_or("not pinned".to_owned(), |member| format!("pinned to {member}"));
                format!("{path}: partition {partition} {now}; it was {before}")
            }
            Done::Drain { path, member, drained, before } => {
                let now = if drained { "drained" } else { "undrained" };
                let was = match (drained, before) {
                    (true, true) => "it was already drained",
                    (false, true) => "it was drained",
                    (true, false) => "it was not drained",
                    (false, false) => {
                        return shown(&format!("{path}: member {member} was not drained; nothing was written"));
                    }
                };
                format!("{path}: member {member} {now}; {was}")
            }
            Done::Rebalance { path } => format!("{path}: the leader is asked to move what absent members had"),
        };
        shown(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::assigner;
    use super::*;

    /// Does this, and returns the text, the JSON and the notes.
    async fn told(client: &Client, setting: Setting) -> (String, serde_json::Value, Vec<String>) {
        let before = state(client, "/jobs").await.expect("the state");
        let done = setting.carry_out(client, "/jobs", &before).await.expect("it is set");
        (done.text(), serde_json::to_value(&done).expect("a value"), setting.notes("/jobs", &before))
    }

    fn pinned(partition: &str, member: &str) -> Setting {
        Setting::Pin { partition: partition.to_owned(), member: member.to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_set_is_told_with_what_it_was() {
        let (_server, client) = assigner().await;
        let unpin = || Setting::Unpin { partition: "12".to_owned() };
        let drain = || Setting::Drain { member: "w-1".to_owned() };
        let undrain = || Setting::Undrain { member: "w-1".to_owned() };
        for (setting, text) in [
            (pinned("12", "w-1"), "partition 12 pinned to w-1; it was pinned to w-9"),
            (pinned("12", "w-1"), "partition 12 was already pinned to w-1"),
            (unpin(), "partition 12 unpinned; it was pinned to w-1"),
            (unpin(), "partition 12 was not pinned; nothing was written"),
            (pinned("12", "w-2"), "partition 12 pinned to w-2; it was not pinned"),
            (drain(), "member w-1 drained; it was not drained"),
            (drain(), "member w-1 drained; it was already drained"),
            (undrain(), "member w-1 undrained; it was drained"),
            (undrain(), "member w-1 was not drained; nothing was written"),
            (Setting::Rebalance, "the leader is asked to move what absent members had"),
        ] {
            let (told, _, notes) = told(&client, setting).await;
            assert_eq!((told, notes), (format!("/jobs: {text}"), Vec::new()));
        }
        let (_, json, _) = told(&client, pinned("12", "w-1")).await;
        let expected =
            serde_json::json!({ "set": "pin", "path": "/jobs", "partition": "12", "pinned": "w-1", "before": "w-2" });
        assert_eq!(json, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_no_effect_yet_is_noted() {
        let (server, client) = assigner().await;
        let (_, _, notes) = told(&client, pinned("99", "w-9")).await;
        let expected = [
            "no leader has assigned partition 99 so far",
            "member w-9 is not present; zkr partitions show /jobs shows the members",
        ];
        assert_eq!(notes, expected);
        let (_, _, notes) = told(&client, Setting::Drain { member: "w-3".to_owned() }).await;
        assert_eq!(notes, ["member w-3 is not present; zkr partitions show /jobs shows the members"]);
        told(&client, Setting::Drain { member: "w-2".to_owned() }).await;
        let (_, _, notes) = told(&client, pinned("0", "w-2")).await;
        assert_eq!(notes, ["member w-2 is drained, and gets nothing"]);
        for node in ["assignments/w-9", "leader/_c_x-latch-0000000000"] {
            server.delete_by_hand(&format!("/jobs/{node}")).expect("deleted");
        }
        for member in ["w-3", "w-9"] {
            told(&client, Setting::Undrain { member: member.to_owned() }).await;
        }
        let (_, _, notes) = told(&client, Setting::Rebalance).await;
        assert_eq!(notes, ["no member leads at the moment, so this has no effect: ask again when one does"]);
        let setting = Setting::Drain { member: "w-1".to_owned() };
        let notes = setting.notes("/jobz", &AssignerState::default());
        assert_eq!(notes, ["/jobz has no members so far; check the path, --namespace and --connect"]);
    }
}
