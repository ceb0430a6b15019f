//! The simulator's engine as a whole: queues of known mean, books, order, chance, paths, actors, FPF.

mod actors;
mod books;
mod fpf;
mod identity;
mod lines;
mod order;
mod paths;
mod queues;
mod support;
