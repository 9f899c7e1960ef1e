//! Scenarios that pin down what servers do. They run on the servers in memory and, with the feature `integration`, on
//! real ones. Any difference is a bug of the servers in memory.

mod differential;
mod moved;
mod multi;
mod nodes;
mod order;
mod scene;
mod sessions;
mod watches;

/// Defines two tests for each scenario, in two modules: one on each kind of scene.
macro_rules! contract {
    ($memory:ident $servers:ident: $scene_module:ident::$Scene:ident; $($module:ident: $($scenario:ident)*;)*) => {
        mod $memory {
            $($(
                #[tokio::test(start_paused = true)]
                async fn $scenario() {
                    super::$module::$scenario(&super::$scene_module::$Scene::in_memory().await).await;
                }
            )*)*
        }

        #[cfg(feature = "integration")]
        mod $servers {
            $($(
                #[tokio::test]
                async fn $scenario() {
                    super::$module::$scenario(&super::$scene_module::$Scene::on_real_servers().await).await;
                }
            )*)*
        }
    };
}

contract! {
    on_memory on_a_server: scene::Scene;
    nodes:
        a_created_node_is_told_with_its_stat
        what_keeps_a_node_from_being_created
        paths_are_checked_before_anything_is_sent
        an_ephemeral_node_has_an_owner_and_no_children
        sequential_names_count_all_creations
        what_keeps_a_node_from_being_deleted
        data_has_versions
        what_is_not_there_cannot_be_read
        of_many_reads_each_is_answered_by_itself
        children_are_listed
        an_acl_is_read_and_hides_hashes
        what_is_not_granted_is_refused
        a_spent_container_is_removed_and_an_unused_one_is_not
        a_node_with_a_time_to_live_is_removed_without_children_and_writes
        a_time_to_live_has_limits
        a_request_too_large_costs_the_connection_and_not_the_session
        a_listing_is_told_however_long_it_is;
    multi:
        a_transaction_sees_its_own_earlier_steps
        a_refused_transaction_changes_nothing
        each_step_can_refuse
        odd_transactions;
    watches:
        a_data_watch_hears_of_data_and_of_the_end
        an_exists_watch_hears_of_the_beginning
        a_child_watch_hears_of_children_and_of_the_end
        a_watch_fires_once_and_for_each_of_its_holders
        an_event_comes_before_any_reply_that_shows_its_cause
        the_event_of_an_own_write_comes_before_its_reply
        a_transaction_fires_once_for_each_path
        a_refused_read_leaves_no_watch
        an_event_needs_the_right_to_read
        a_dropped_watch_leaves_the_others_alone
        a_persistent_watch_hears_of_its_node_and_its_list_for_as_long_as_it_is_held
        a_recursive_watch_hears_of_every_node_below_and_of_no_list
        every_kind_of_watch_on_a_path_lives_by_itself
        a_persistent_watch_ends_with_its_session;
    sessions:
        closing_ends_nodes_and_watches
        what_was_handed_over_before_a_close_is_carried_out_and_answered
        a_session_dropped_is_closed
        sessions_do_not_see_each_others_end;
    order:
        requests_are_carried_out_in_the_order_of_the_calls
        a_reply_that_nobody_awaits_changes_nothing
        a_sync_shows_what_others_wrote
        the_latest_transaction_is_no_earlier_than_any_that_was_told
        create_and_list_in_one_flight;
}

contract! {
    on_servers_in_memory on_three_servers: moved::Servers;
    moved:
        the_old_connection_of_a_session_that_has_moved_is_still_answered_reads_and_syncs
        the_old_connection_of_a_session_that_has_moved_writes_nothing
        the_old_connection_of_a_session_that_has_moved_can_still_close_it;
}
