//! Configurations of the client, from a kubeconfig file, or from the service account files in a pod.
//!
//! As for `kubectl`, relative paths in a kubeconfig are relative to its folder, and the first file of several that has
//! an entry wins.

use super::error::ConfigError;
use super::exec::Exec;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use omega_workload::readable;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The credentials of a client, as configured.
#[derive(Clone, Debug)]
pub enum Auth {
    /// No credentials; a client certificate may still name the user.
    None,
    /// A bearer token.
    Token(String),
    /// A file with a bearer token, whose content is replaced from time to time.
    TokenFile(PathBuf),
    /// A user name and a password.
    Basic(String),
    /// A program that prints credentials.
    Exec(Exec),
}

/// Certificates or a key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pem {
    /// The text.
    Text(Vec<u8>),
    /// A file with the text, whose content is replaced from time to time.
    File(PathBuf),
}

impl Pem {
    /// Returns the present text.
    pub(super) fn read(&self) -> Result<Vec<u8>, ConfigError> {
        match self {
            Pem::Text(text) => Ok(text.clone()),
            Pem::File(path) => read(path),
        }
    }
}

/// The API server and the credentials for it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server's address, such as `https://10.0.0.1:6443`.
    pub server: String,
    /// Certificates of the trusted authorities; `None` means the authorities of the system.
    pub authorities: Option<Pem>,
    /// The name in the server's certificate, if it is not the host of the address.
    pub server_name: Option<String>,
    /// Whether the server's certificate is accepted unchecked.
    pub insecure: bool,
    /// The client's certificate, and its key.
    pub identity: Option<(Pem, Pem)>,
    /// Credentials other than a client certificate.
    pub auth: Auth,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    #[serde(rename = "current-context")]
    current: Option<String>,
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
    contexts: Option<Vec<NamedContext>>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: User,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    #[serde(default)]
    user: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: bool,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    username: Option<String>,
    password: Option<String>,
    exec: Option<Exec>,
    auth_provider: Option<serde_json::Value>,
    #[serde(rename = "as")]
    impersonate: Option<String>,
}

impl Config {
    /// Finds the configuration as `kubectl` does. Uses the first of these that exists: the given file, `KUBECONFIG`,
    /// the service account of this pod, the file in the home folder.
    ///
    /// # Errors
    /// If there is no configuration, or it cannot be used.
    pub fn find(file: Option<&Path>, context: Option<&str>) -> Result<Config, ConfigError> {
        if let Some(path) = file {
            return Config::of_file(path, context);
        }
        let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
        let named = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty());
        let named: Vec<PathBuf> = named.collect();
        if !named.is_empty() {
            return Config::of_files(&named, context);
        }
        if let Some(config) = Config::in_cluster()? {
            return Ok(config);
        }
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config"));
        match home.filter(|path| path.exists()) {
            Some(path) => Config::of_file(&path, context),
            None => Err(ConfigError::NoCluster),
        }
    }

    /// Returns the configuration of the pod in which this process runs; `None` if it runs in no pod.
    ///
    /// # Errors
    /// If the certificate of the service account cannot be read.
    pub fn in_cluster() -> Result<Option<Config>, ConfigError> {
        let host = std::env::var("KUBERNETES_SERVICE_HOST");
        let port = std::env::var("KUBERNETES_SERVICE_PORT");
        let (Ok(host), Ok(port)) = (host, port) else { return Ok(None) };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let folder = Path::new("/var/run/secrets/kubernetes.io/serviceaccount");
        Ok(Some(Config {
            server: format!("https://{host}:{port}"),
            authorities: Some(file(folder.join("ca.crt"))?),
            server_name: None,
            insecure: false,
            identity: None,
            auth: Auth::TokenFile(folder.join("token")),
        }))
    }

    /// Returns a configuration with this address and without credentials, for a proxy such as `kubectl proxy`.
    #[must_use]
    pub fn plain(server: &str) -> Config {
        Config {
            server: server.into(),
            authorities: None,
            server_name: None,
            insecure: false,
            identity: None,
            auth: Auth::None,
        }
    }

    /// Reads a kubeconfig file.
    ///
    /// # Errors
    /// If the file cannot be read, or refers to an entry that it does not have.
    pub fn of_file(path: &Path, context: Option<&str>) -> Result<Config, ConfigError> {
        Config::of_files(&[path.to_owned()], context)
    }

    /// Reads kubeconfig files, of which the first with an entry wins. Missing files are skipped, unless all are
    /// missing.
    ///
    /// # Errors
    /// If a file cannot be read, or an entry is in none of them.
    fn of_files(paths: &[PathBuf], context: Option<&str>) -> Result<Config, ConfigError> {
        let exist: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
        let Some(first) = exist.first().copied().or(paths.first()) else {
            return Err(ConfigError::NoCluster);
        };
        let read = if exist.is_empty() { vec![first] } else { exist };
        let files: Vec<(&PathBuf, File)> = read
            .into_iter()
            .map(|path| Ok((path, parse(path)?)))
            .collect::<Result<_, ConfigError>>()?;
        let mut currents = files.iter().filter_map(|(_, file)| file.current.as_deref());
        let current = context.or_else(|| currents.find(|current| !current.is_empty()));
        let current = current.unwrap_or_default();
        let (_, context) = find(&files, |file| &file.contexts, |named| named.name == current)
            .ok_or_else(|| {
                fault(
                    first,
                    format!(
                        "current-context {current:?} is not in contexts: choose one with \
                 --context"
                    ),
                )
            })?;
        let (cluster, user) = (&context.context.cluster, &context.context.user);
        let known = find(&files, |file| &file.clusters, |named| named.name == *cluster);
        let (of_cluster, cluster) = known.ok_or_else(|| {
            fault(first, format!("context {current:?}: cluster {cluster:?} is not in clusters"))
        })?;
        let none = User::default();
        let (of_user, user) = match find(&files, |file| &file.users, |named| named.name == *user) {
            Some((path, named)) => (path, &named.user),
            None if user.is_empty() => (first.as_path(), &none),
            None => {
                return Err(fault(
                    first,
                    format!("context {current:?}: user {user:?} is not in users"),
                ));
            }
        };
        config(&Reader { path: of_cluster }, &cluster.cluster, &Reader { path: of_user }, user)
    }
}

/// Reads the entries of a kubeconfig file.
fn parse(path: &Path) -> Result<File, ConfigError> {
    let text = read(path)?;
    serde_saphyr::from_str(&String::from_utf8_lossy(&text)).map_err(|why| {
        // The other lines of the message quote the file.
        let why = why.to_string();
        let line = why.lines().next().unwrap_or_default().trim_start_matches("error: ");
        fault(path, format!("is not a kubeconfig file: {line}"))
    })
}

/// Returns the first entry that is wanted, and its file.
fn find<'a, T>(
    files: &'a [(&PathBuf, File)],
    entries: impl Fn(&'a File) -> &'a Option<Vec<T>>,
    wanted: impl Fn(&T) -> bool,
) -> Option<(&'a Path, &'a T)> {
    files.iter().find_map(|(path, file)| {
        let entry = entries(file).iter().flatten().find(|entry| wanted(entry));
        entry.map(|entry| (path.as_path(), entry))
    })
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    readable::read(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })
}

/// Returns a file that can be read now.
fn file(path: PathBuf) -> Result<Pem, ConfigError> {
    read(&path)?;
    Ok(Pem::File(path))
}

fn fault(path: &Path, message: String) -> ConfigError {
    ConfigError::Field { path: path.to_owned(), message }
}

/// Reads the entries and files to which a kubeconfig file refers.
struct Reader<'a> {
    path: &'a Path,
}

/// Returns the configuration of a cluster and a user, each with the reader of its file.
fn config(
    of_cluster: &Reader<'_>,
    cluster: &Cluster,
    of_user: &Reader<'_>,
    user: &User,
) -> Result<Config, ConfigError> {
    if let Some(proxy) = cluster.proxy_url.as_ref().filter(|proxy| !proxy.is_empty()) {
        let message = format!("proxy-url {proxy:?} is not supported: remove it");
        return Err(fault(of_cluster.path, message));
    }
    let authorities = of_cluster.pem(
        "certificate-authority-data",
        cluster.certificate_authority_data.as_deref(),
        cluster.certificate_authority.as_deref(),
    )?;
    let (identity, auth) = of_user.credentials(user)?;
    Ok(Config {
        server: cluster.server.clone(),
        authorities,
        server_name: cluster.tls_server_name.clone(),
        insecure: cluster.insecure_skip_tls_verify,
        identity,
        auth,
    })
}

impl Reader<'_> {
    /// Returns the client's certificate and the other credentials of a user.
    fn credentials(&self, user: &User) -> Result<(Option<(Pem, Pem)>, Auth), ConfigError> {
        if user.auth_provider.is_some() {
            let message = "auth-provider is not supported: use exec, as kubectl does since 1.26";
            return Err(fault(self.path, message.into()));
        }
        if let Some(name) = user.impersonate.as_ref().filter(|name| !name.is_empty()) {
            let message = format!(
                "impersonation (`as` {name:?}) is not supported: use that \
                 user's own credentials"
            );
            return Err(fault(self.path, message));
        }
        let certificate = self.pem(
            "client-certificate-data",
            user.client_certificate_data.as_deref(),
            user.client_certificate.as_deref(),
        )?;
        let key = self.pem(
            "client-key-data",
            user.client_key_data.as_deref(),
            user.client_key.as_deref(),
        )?;
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                let message = "client-certificate and client-key must be given together";
                return Err(fault(self.path, message.into()));
            }
        };
        let auth = match &user.exec {
            Some(exec) => Auth::Exec(exec.clone().in_folder(self.folder())),
            None => match (&user.token_file, &user.token, &user.username, &user.password) {
                (Some(file), ..) => Auth::TokenFile(self.folder().join(file)),
                (None, Some(token), ..) => Auth::Token(token.clone()),
                (None, None, Some(name), Some(password)) => {
                    Auth::Basic(STANDARD.encode(format!("{name}:{password}")))
                }
                _ => Auth::None,
            },
        };
        Ok((identity, auth))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Returns PEM data from the kubeconfig itself, or from the file that it names.
    fn pem(
        &self,
        field: &str,
        data: Option<&str>,
        path: Option<&Path>,
    ) -> Result<Option<Pem>, ConfigError> {
        if let Some(data) = data {
            let decoded = STANDARD.decode(data.trim());
            let wrong = |why| fault(self.path, format!("{field} is not base64: {why}"));
            return decoded.map(|text| Some(Pem::Text(text))).map_err(wrong);
        }
        path.map(|path| file(self.folder().join(path))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://h:6443', certificate-authority-data: YWJj}}]
users: [{name: u, user: {token: secret}}]
";

    fn load(text: &str) -> Result<Config, String> {
        let folder = std::env::temp_dir().join(format!("omega-kube-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let name = format!("{:x}", text.len() * 31 + text.bytes().map(usize::from).sum::<usize>());
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a file");
        Config::of_file(&path, None).map_err(|why| why.to_string())
    }

    #[test]
    fn a_context_names_a_cluster_and_a_user() {
        let config = load(GOOD).expect("a configuration");
        assert_eq!(config.server, "https://h:6443");
        assert_eq!(config.authorities, Some(Pem::Text(b"abc".into())));
        assert!(matches!(config.auth, Auth::Token(token) if token == "secret"));
    }

    #[test]
    fn of_several_files_the_first_with_an_entry_wins_and_missing_files_are_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(&path, text).expect("a file");
            path
        };
        let first = "
current-context: ''
clusters: [{name: c, cluster: {server: 'https://first:6443', proxy-url: ''}}]
contexts: null
";
        let second = GOOD.replace("token: secret", "tokenFile: token");
        let missing = folder.path().join("missing");
        let paths = [missing.clone(), file("a/config", first), file("b/config", &second)];
        let config = Config::of_files(&paths, None).expect("a configuration");
        assert_eq!(config.server, "https://first:6443");
        let token = folder.path().join("b/token");
        assert!(matches!(config.auth, Auth::TokenFile(path) if path == token));
        let why = Config::of_files(&[missing], None).expect_err("no file").to_string();
        assert!(why.contains("missing"), "{why}");
    }

    #[test]
    fn what_cannot_be_used_is_named_with_its_field() {
        for (from, to, field) in [
            ("current-context: a", "current-context: b", "current-context \"b\""),
            ("cluster: c,", "cluster: d,", "cluster \"d\""),
            ("user: u}", "user: v}", "user \"v\""),
            ("YWJj", "'!'", "certificate-authority-data"),
            ("token: secret", "auth-provider: {name: gcp}", "auth-provider"),
            ("token: secret", "client-key-data: YWJj", "client-certificate and client-key"),
            ("token: secret", "as: root", "`as` \"root\""),
            ("token: secret", "client-key: none.pem", "none.pem"),
        ] {
            let why = load(&GOOD.replace(from, to)).expect_err(to);
            assert!(why.contains(field), "{why}");
        }
    }
}
