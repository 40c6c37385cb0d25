//! Points in time as text.

const DAY_S: i64 = 86_400;

/// A point in time, nanoseconds since the Unix epoch, in UTC to the microsecond (RFC 3339).
pub fn rfc3339(now: i64) -> String {
    let (seconds, nanoseconds) = (now.div_euclid(1_000_000_000), now.rem_euclid(1_000_000_000));
    let (year, month, day) = date(seconds.div_euclid(DAY_S));
    let second = seconds.rem_euclid(DAY_S);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let micros = nanoseconds / 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar. Years are taken
/// to begin in March, so that the day that some years have more is their last; 400 years have
/// 146,097 days.
fn date(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    // Days from 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1460 + day / 36_524 - day / (ERA_DAYS - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, five months have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_each_other() {
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let (mut year, mut month, mut day) = (1600, 1, 1);
        // From 1600-01-01 on, 500 years.
        for days in -135_140..-135_140 + 500 * 365 {
            assert_eq!(date(days), (year, month, day));
            let len = match month {
                2 => 28 + i64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > len {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn times_are_those_of_others() {
        // date -u -d @N
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(rfc3339(1_000_000_000_000_000_000), "2001-09-09T01:46:40.000000Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(&rfc3339(i64::MAX)[..4], "2262");
        assert_eq!(&rfc3339(i64::MIN)[..4], "1677");
    }
}
