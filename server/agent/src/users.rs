//! Users by name, from `/etc/passwd` and `/etc/group`.

use std::io;

/// A user, and the groups that the user is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) home: String,
}

/// Finds a user by name.
pub(crate) fn find(name: &str) -> io::Result<User> {
    let read = |path| std::fs::read_to_string(path);
    let found = lookup(name, &read("/etc/passwd")?, &read("/etc/group")?);
    found.ok_or_else(|| {
        io::Error::other(format!(
            "there is no user {name:?} in /etc/passwd: add the user to this machine, or correct \
             the job"
        ))
    })
}

/// Home of the agent's user: that in `/etc/passwd`, or else that in the environment, or else `/`.
pub(crate) fn own_home() -> String {
    let uid = rustix::process::getuid().as_raw();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let known = home_of(uid, &passwd).or_else(|| std::env::var("HOME").ok());
    known.filter(|home| home.starts_with('/')).unwrap_or_else(|| "/".to_owned())
}

fn home_of(uid: u32, passwd: &str) -> Option<String> {
    let mut users = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let is_own = |fields: &Vec<&str>| fields.get(2).and_then(|id| id.parse().ok()) == Some(uid);
    users.find(is_own)?.get(5).map(|home| (*home).to_owned())
}

fn lookup(name: &str, passwd: &str, group: &str) -> Option<User> {
    let line = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = line.into_iter().find(|fields| fields.first() == Some(&name))?;
    let number = |at: usize| fields.get(at)?.parse().ok();
    let (uid, gid) = (number(2)?, number(3)?);
    let mut groups = vec![gid];
    for line in group.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let is_member = fields.get(3).is_some_and(|list| list.split(',').any(|one| one == name));
        let id = fields.get(2).and_then(|id| id.parse().ok()).filter(|id| !groups.contains(id));
        groups.extend(id.filter(|_| is_member));
    }
    Some(User { uid, gid, groups, home: (*fields.get(5)?).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_its_own_group_and_those_that_name_it() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nwww:x:33:30::/srv/www:/bin/false\nbad\n";
        let group = "root:x:0:\nwww:x:30:www\ndata:x:7:ops,www\nops:x:8:ops\n";
        let (groups, home) = (vec![30, 7], "/srv/www".to_owned());
        let www = User { uid: 33, gid: 30, groups, home };
        assert_eq!(lookup("www", passwd, group), Some(www));
        assert_eq!(home_of(33, passwd).as_deref(), Some("/srv/www"));
        assert_eq!(home_of(34, passwd), None);
        assert_eq!(lookup("ww", passwd, group), None);
        assert_eq!(lookup("bad", passwd, group), None);
    }
}
