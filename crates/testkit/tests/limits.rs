//! Limits of one server of a scenario hold for that server.

use callboard_testkit::{Scenario, run};

#[test]
fn an_attempt_ends_at_the_limit_of_its_own_server() {
    let text = "duration_ms = 60000\nconnect_all = true\n\
        [[servers]]\nname = 'hasty'\nconnect_timeout_ms = 2000\n\
        faults = [{ kind = 'hang', from_ms = 0, until_ms = 60000, percent = 100, phase = 'handshake' }]\n\
        [[servers]]\nname = 'patient'\n\
        faults = [{ kind = 'hang', from_ms = 0, until_ms = 60000, percent = 100, phase = 'handshake' }]\n";
    let scenario = Scenario::from_toml(text).expect("a scenario");
    assert_eq!(Scenario::from_toml(&scenario.to_toml()).as_ref(), Ok(&scenario));
    let recording = run(&scenario).expect("runs");
    assert_eq!(recording.broken, []);
    let first_failed_ms = |server: usize| {
        let bands = &recording.servers[server].bands;
        bands.iter().find(|band| band.state == "failed").map(|band| band.from_ms)
    };
    assert_eq!((first_failed_ms(0), first_failed_ms(1)), (Some(2_000), Some(30_000)));
    let zero = text.replace("2000", "0");
    assert!(Scenario::from_toml(&zero).is_err(), "no attempt fits into no time");
}

#[test]
fn callers_that_give_up_at_once_leave_nothing_behind() {
    let text = "duration_ms = 5000\n[[servers]]\nname = 'web'\ntransport = 'http'\n\
        [[callers]]\ncount = 20\nthink_ms = [1, 4]\ntimeout_ms = [2, 10]\n";
    let recording = run(&Scenario::from_toml(text).expect("a scenario")).expect("runs");
    assert_eq!(recording.broken, []);
}
