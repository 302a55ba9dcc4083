use std::net::IpAddr;

use bytes::Bytes;

use super::*;

fn prefix(network: u8) -> Prefix {
    IpAddr::from([192, 0, network, 1]).into()
}

fn bodies(limit: usize) -> Arc<Bodies> {
    Bodies::new(limit, Arc::default())
}

#[test]
fn what_is_taken_counts_no_more() {
    let bodies = bodies(1 << 20);
    let held = bodies.holder(prefix(1));
    held.came(STEP - 1, 0, 0);
    assert_eq!(bodies.total(), 0, "less than a step");
    held.came(10 * STEP + 1, 0, 0);
    assert_eq!(bodies.total(), 11 * STEP);
    held.taken(4 * STEP);
    assert_eq!(bodies.total(), 7 * STEP);
    held.announced(3 * STEP, 0);
    assert_eq!(bodies.total(), 3 * STEP);
    held.settle();
    assert_eq!(bodies.total(), 0);
    held.came(5 * STEP, 0, 0);
    drop(held);
    assert_eq!((bodies.total(), lock(&bodies.holders).len()), (0, 0));
}

#[test]
fn a_piece_counts_until_its_last_slice_is_dropped() {
    let bodies = bodies(1 << 20);
    let held = bodies.holder(prefix(1));
    let mut piece = held.count_piece(Bytes::from(vec![0; 2 * STEP]), true);
    let slice = piece.split_to(1);
    drop(piece);
    assert_eq!(bodies.total(), 2 * STEP);
    drop(slice);
    assert_eq!(bodies.total(), 0);
    let _small = held.count_piece(Bytes::from_static(b"more follows"), false);
    assert_eq!(bodies.total(), BEHIND_A_PIECE);
}

#[test]
fn bytes_in_tunnels_count_until_they_are_taken() {
    let bodies = bodies(1 << 20);
    let held = bodies.holder(prefix(1));
    let [mut one, mut other] = [held.of_tunnel(), held.of_tunnel()];
    assert_eq!(lock(&bodies.holders).len(), 1, "before anything counts");
    one.set(3 * STEP);
    other.set(2 * STEP);
    assert_eq!(bodies.total(), 5 * STEP);
    one.set(STEP);
    assert_eq!(bodies.total(), 3 * STEP);
    drop(other);
    assert_eq!(bodies.total(), STEP);
    one.set((1 << 20) + STEP);
    assert!(held.has_ended());
    drop(one);
    assert_eq!(bodies.total(), 0);
}

const BEHIND_A_PIECE: usize = 64 << 10;

#[test]
fn the_largest_connection_of_the_largest_network_ends() {
    let bodies = bodies(100 * STEP);
    let [small, large] = [10, 40].map(|steps| {
        let held = bodies.holder(prefix(1));
        held.came(steps * STEP, 0, 0);
        held
    });
    let neighbour = bodies.holder(prefix(2));
    neighbour.came(45 * STEP, 0, 0);
    assert!(!large.has_ended());
    let late = bodies.holder(prefix(3));
    late.came(6 * STEP, 0, 0);
    assert!(large.has_ended());
    for other in [&small, &neighbour, &late] {
        assert!(!other.has_ended());
    }
    assert_eq!(bodies.total(), 61 * STEP);
    large.taken(STEP);
    assert_eq!(bodies.total(), 61 * STEP, "it counts no more");
}

#[test]
fn many_small_connections_end_at_once() {
    let bodies = bodies(160 * STEP);
    let crowd: Vec<_> = (0..161u8)
        .map(|network| bodies.holder(prefix(network)))
        .collect();
    for held in &crowd {
        held.came(STEP, 0, 0);
    }
    let ended = crowd.iter().filter(|held| held.has_ended()).count();
    assert_eq!((ended, bodies.total()), (11, 150 * STEP));
}

#[test]
fn an_end_wakes_the_connection() {
    let bodies = bodies(STEP);
    let held = bodies.holder(prefix(1));
    let (waker, count) = counting_waker();
    assert!(!held.wake_at_end(&waker));
    held.came(STEP, 0, 0);
    assert!(!held.wake_at_end(&waker));
    held.came(STEP, 0, 0);
    assert!(held.has_ended() && count.load(Relaxed) == 1);
    assert!(held.wake_at_end(&waker));
}

/// Makes a waker that counts its calls.
fn counting_waker() -> (Waker, Arc<AtomicUsize>) {
    struct Count(Arc<AtomicUsize>);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    (Waker::from(Arc::new(Count(Arc::clone(&count)))), count)
}

#[test]
fn a_window_without_room_for_a_frame_is_full() {
    let held = bodies(1 << 20).holder(prefix(1));
    assert!(!held.is_full());
    held.came(STEP, 0, LEAST_WINDOW - 1);
    assert!(held.is_full());
    held.announced(0, LEAST_WINDOW);
    assert!(!held.is_full());
}

#[test]
fn small_frames_between_large_ones_count_their_blocks() {
    let bodies = bodies(1 << 30);
    let held = bodies.holder(prefix(1));
    // Alone, small frames lie side by side.
    for _ in 0..64 {
        held.came(STEP / 64, block_of(STEP / 64), 0);
    }
    assert_eq!(bodies.total(), STEP);
    for _ in 0..64 {
        held.taken(STEP / 64);
    }
    for _ in 0..10 {
        held.came(1, block_of(1), 0);
        held.came(2 * STEP, block_of(2 * STEP), 0);
        held.taken(2 * STEP);
    }
    assert_eq!(bodies.total(), 10 * STEP);
    held.announced(5, 0);
    assert_eq!(bodies.total(), 5 * STEP);
    for _ in 0..5 {
        held.taken(1);
    }
    assert_eq!(bodies.total(), 0);
}
