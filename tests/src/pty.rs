//! A pseudo-terminal, to see what a program shows to a person.

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, ExitStatus};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Runs a program on a terminal of so many columns; everything that came there, and how it ended.
pub fn shown(mut command: Command, columns: u16) -> (String, ExitStatus) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    grantpt(&master).expect("it is ours");
    unlockpt(&master).expect("it can be opened");
    let name = ptsname(&master, Vec::new()).expect("it has a name");
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let side = open(name.as_c_str(), flags, Mode::empty()).expect("it is opened");
    let size = Winsize {
        ws_row: 40,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&side, size).expect("it has a size");
    let other = side.try_clone().expect("it has many handles");
    command.stdout(other).stderr(side);
    let mut child = command.spawn().expect("the program starts");
    // The program alone holds the other side now, so that its end is the end.
    drop(command);
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    let mut reader = File::from(master);
    // When the other side is closed, some systems say that with an error.
    while let Ok(count @ 1..) = reader.read(&mut buffer) {
        all.extend_from_slice(&buffer[..count]);
    }
    let status = child.wait().expect("it is our child");
    (String::from_utf8_lossy(&all).replace("\r\n", "\n"), status)
}
