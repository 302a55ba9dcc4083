mod bundles;
mod caching;
mod connections;
mod outcomes;
mod rig;
mod trouble;
