//! What lines cost in memory, alone in its test process.
#![cfg(target_os = "linux")]

mod common;

use callboard_core::port::InFrame;
use callboard_core::settings::Settings;
use callboard_protocol::{Frame, ReplyBody};
use common::*;

const KIB_PER_MIB: usize = 1024;

/// The most memory this process ever had, in KiB.
fn peak_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("own status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

#[tokio::test]
async fn f310_lines_cost_no_more_than_their_bounds() {
    let settings = settings(|settings| settings.wire_frame_bytes_max = 1024 * 1024);
    let flood = r#"head -c 200000000 /dev/zero | tr '\0' a; echo; echo '{"method":"a"}'"#;
    let mut link = dial_script(&unique("flood"), flood, settings).await;
    let before = peak_kib();
    assert!(matches!(next(&mut link).await, Ok(InFrame::TooLarge { .. })));
    assert_eq!(next_method(&mut link).await, "a");
    let cost = peak_kib() - before;
    assert!(cost < 4 * KIB_PER_MIB, "200 MB without a line end took {cost} KiB");
    close(link).await;

    let long = r#"printf '{"id":1,"result":"'; head -c 16777000 /dev/zero | tr '\0' a; echo '"}'; echo '{"method":"a"}'"#;
    let mut link = dial_script(&unique("long"), long, Settings::default()).await;
    let before = peak_kib();
    let Ok(InFrame::Frame(Frame::Reply(reply))) = next(&mut link).await else { panic!("no reply") };
    assert_eq!(next_method(&mut link).await, "a");
    let ReplyBody::Result(result) = &reply.body else { panic!("no result") };
    assert_eq!(result.len(), 16_777_002);
    let cost = peak_kib() - before;
    assert!(cost < 32 * KIB_PER_MIB, "a line of 16 MiB took {cost} KiB");
    close(link).await;
}
