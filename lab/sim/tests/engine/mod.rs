//! The simulator's engine as a whole: queues of known mean, balance of counters, order, randomness, paths, actors.

mod actors;
mod books;
mod identity;
mod lines;
mod order;
mod paths;
mod queues;
mod support;
