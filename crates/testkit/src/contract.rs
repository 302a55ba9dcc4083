//! The suite that every store and every wrapper passes: each sentence of the
//! contracts in [`sekisho_certs::store`] as a test named after it.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a suite of tests: each name is a sentence, each unwrap a claim"
)]

pub mod documents;
pub mod due;
pub mod fixture;
pub mod leases;
pub mod lineages;
pub mod lists;
pub mod log;
pub mod reseal;
pub mod store;
pub mod write;

pub use fixture::{Fixture, Names};

/// Makes a test of each sentence of [`sekisho_certs::ChangeLog`] and
/// [`sekisho_certs::Catalog`], whose secrets are sealed; takes an expression that gives a future of a [`Fixture`].
#[macro_export]
macro_rules! catalog_contract {
    ($fixture:expr) => {
        $crate::contract_tests! { $fixture,
            store: absent_only_if_neither_is_there, exact_comes_before_wildcard,
            shadowed_says_whether_exact_records_stand_below, one_call_reads_one_state,
            callable_from_any_runtime, a_dropped_future_leaves_nothing_locked,
            a_dropped_read_leaves_nothing_waiting;
            write: a_write_is_whole_or_not_at_all, what_is_expected_must_be_there,
            an_orphan_is_deleted_in_the_same_transaction, a_reference_must_exist,
            a_credential_keeps_its_type, every_field_comes_back,
            a_client_ca_is_replaced_and_dropped, removing_what_is_absent_changes_nothing,
            an_origin_ends_with_the_next_write, a_page_of_suspension_comes_back;
            reseal: sealing_again_is_no_change, sealing_again_keeps_the_origin,
            what_was_changed_meanwhile_is_left_alone, a_required_document_must_stand_there;
            log: numbers_grow_by_one, a_mark_tells_histories_apart, nobody_sees_a_smaller_number_later,
            an_answer_carries_its_position, a_new_credential_is_not_announced, a_replaced_one_is_one_change,
            what_is_too_old_or_beyond_is_a_gap, changed_resolves_after_a_write,
            the_identities_are_fixed;
            lists: lists_are_in_byte_order_and_paged, what_stood_throughout_is_listed_once,
            hosts_are_filtered_each_way, a_filtered_list_is_paged_to_its_end,
            names_below_a_domain_are_listed, tenants_are_listed_once_in_order,
            credentials_are_listed_by_their_end, hosts_are_found_by_their_credential,
            many_are_read_by_their_keys, lineages_are_counted;
            documents: a_document_comes_back, an_expired_document_is_not_there,
            documents_are_listed_by_kind, kinds_are_found_in_order, documents_are_announced,
            a_version_grows_unannounced, one_of_many_makes_an_absent_document;
            leases: one_of_many_takes_a_lease, an_expired_lease_is_taken_over,
            its_holder_prolongs_and_releases_it;
            due: the_due_are_claimed_in_their_turns, a_backlog_is_claimed_in_turns,
            what_is_not_due_hides_no_turn, what_another_can_get_is_left_to_it,
            who_can_prove_everywhere_takes_all, what_is_left_to_others_hides_nothing;
            lineages: every_field_of_a_lineage_comes_back, one_holder_claims_a_lineage_at_a_time, a_named_claim_is_prolonged_by_its_holder,
            a_fence_holds_only_with_its_claim, lineages_are_listed_by_name,
            an_order_is_sealed_again, challenges_are_no_changes;
        }
    };
}

/// Makes a test of each sentence of [`sekisho_certs::Store`] that holds for a store
/// that others write, whose keys are open; takes an expression that gives a future of [`Names`].
#[macro_export]
macro_rules! store_contract {
    ($names:expr) => {
        $crate::contract_tests! { $names,
            store: absent_only_if_neither_is_there, callable_from_any_runtime,
            a_dropped_read_leaves_nothing_waiting;
        }
    };
}

/// Expansion of the suites.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_tests {
    ($fixture:expr, $($module:ident: $($name:ident),+;)+) => {
        $(mod $module {
            #[allow(unused_imports, reason = "the fixture's names")]
            use super::*;
            $(
                #[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    $crate::contract::$module::$name($fixture.await).await;
                }
            )+
        })+
    };
}
