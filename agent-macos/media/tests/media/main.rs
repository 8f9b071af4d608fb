//! Media work with the FFmpeg of this machine.
#![cfg(test)]

mod assembles;
mod assembly_shapes;
mod burns;
mod checks;
mod children;
mod colours;
mod hostile;
mod kit;
mod leaks;
mod limits;
mod mix_shapes;
mod mixes;
mod remotion;
mod remotion_disk;
mod remotion_limits;
mod remotion_pages;
mod remotion_script;
mod remotion_wall;
mod shapes;
mod stitch_colours;
mod stitch_seeks;
mod stitch_shapes;
mod stitches;
mod sync;
mod thumbnail_shapes;
mod thumbnails;
mod transcodes;
