//! Times of the API server: RFC 3339 in UTC, to the second or the microsecond. Plugins may print other offsets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the days since 1970-01-01 of a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns year, month and day of a number of days since 1970-01-01.
fn date(days: i64) -> [i64; 3] {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let january = i64::from(month <= 2);
    [year + era * 400 + january, month, day]
}

fn parts(at: SystemTime) -> (String, u32) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let [year, month, day] = date(seconds / 86_400);
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    (text, since.subsec_micros())
}

/// Formats a time as `metav1.Time`.
#[must_use]
pub fn seconds(at: SystemTime) -> String {
    format!("{}Z", parts(at).0)
}

/// Formats a time as `metav1.MicroTime`.
#[must_use]
pub fn micros(at: SystemTime) -> String {
    let (text, micros) = parts(at);
    format!("{text}.{micros:06}Z")
}

/// Parses an offset from UTC, as seconds.
fn offset(text: &str) -> Option<i64> {
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let is_short = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_short(hours) || !is_short(minutes) {
        return None;
    }
    let seconds = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
    Some(if text.starts_with('-') { -seconds } else { seconds })
}

/// Parses a time as in RFC 3339; `None` if the text is not such a time, or the time is before 1970.
#[must_use]
pub fn parse(text: &str) -> Option<SystemTime> {
    let (date, time) = text.split_once('T')?;
    let (time, offset) = match time.strip_suffix('Z') {
        Some(time) => (time, 0),
        None => {
            let (time, rest) = time.split_at(time.find(['+', '-'])?);
            (time, offset(rest)?)
        }
    };
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let mut time = time.splitn(3, ':');
    let hour: i64 = time.next()?.parse().ok()?;
    let minute: i64 = time.next()?.parse().ok()?;
    let second: f64 = time.next()?.parse().ok()?;
    let is_date =
        (0..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_time =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..61.0).contains(&second);
    if !is_date || !is_time {
        return None;
    }
    let in_day = hour * 3600 + minute * 60 - offset;
    let whole = u64::try_from(days(year, month, day) * 86_400 + in_day).ok()?;
    let fraction = Duration::try_from_secs_f64(second).ok()?;
    Some(UNIX_EPOCH + Duration::from_secs(whole) + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_and_parsed_alike() {
        for at in [0, 951_782_400, 1_709_164_800, 1_735_689_599, 4_102_444_800] {
            let at = UNIX_EPOCH + Duration::from_secs(at);
            assert_eq!(parse(&seconds(at)), Some(at));
        }
        let leap = UNIX_EPOCH + Duration::from_millis(1_709_164_800_250);
        assert_eq!(micros(leap), "2024-02-29T00:00:00.250000Z");
        assert_eq!(parse("2024-02-29T00:00:00.250Z"), Some(leap));
    }

    #[test]
    fn offsets_from_utc_are_parsed() {
        let leap = Some(UNIX_EPOCH + Duration::from_secs(1_709_164_800));
        for text in
            ["2024-02-29T00:00:00+00:00", "2024-02-29T05:30:00+05:30", "2024-02-28T19:00:00-05:00"]
        {
            assert_eq!(parse(text), leap, "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "yesterday",
            "2024-02-29T00:00:00",
            "2024-02-29T00:00:00+1:00",
            "2024-02-29T00:00:00+é",
            "2024-13-01T00:00:00Z",
            "2024-02-29T24:00:00Z",
            "2024-02-29T00:00:1e19Z",
            "9223372036854775807-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
