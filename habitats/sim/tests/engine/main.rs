//! The simulator's engine as a whole: queues of known mean, books, order, chance, ways, actors.

mod actors;
mod books;
mod identity;
mod order;
mod queues;
mod support;
mod ways;
