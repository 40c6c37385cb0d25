//! A real browser without a screen, driven by WebDriver (W3C) as its driver speaks it.

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::network::Namespace;
use crate::process::{LIMIT, Running, need, wait_for};

/// Key of an element's number in answers (WebDriver, section 12.3).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys, as WebDriver types them (section 17.4.2).
pub const ESCAPE: &str = "\u{e00c}";
pub const ARROW_DOWN: &str = "\u{e015}";

/// A browser in a network namespace; it ends with this value.
pub struct Browser<'a> {
    host: &'a Namespace,
    port: u16,
    session: String,
    _driver: Running,
    _profile: TempDir,
}

impl<'a> Browser<'a> {
    /// Starts one with a new profile.
    pub fn start(host: &'a Namespace) -> Browser<'a> {
        need("chromedriver", "chromium-driver");
        need("chromium", "chromium");
        let driver = Running::start(host.command("chromedriver").arg("--port=0"));
        let port = wait_for("the browser's driver", || {
            let said = driver.stdout();
            let rest = said.split_once("successfully on port ")?.1;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        });
        let profile = tempfile::tempdir().expect("a directory");
        let directory = profile.path().display();
        let options = json!({
            "args": [
                "--headless=new", format!("--user-data-dir={directory}"), "--window-size=1440,1100",
                // As root it has no sandbox of its own; the certificate vouches for itself.
                "--no-sandbox", "--ignore-certificate-errors", "--disable-dev-shm-usage",
                "--disable-gpu", "--no-first-run", "--disable-background-networking",
            ],
        });
        let asked =
            json!({ "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"} });
        let mut browser =
            Browser { host, port, session: String::new(), _driver: driver, _profile: profile };
        let capabilities = json!({ "capabilities": { "alwaysMatch": asked } });
        let made = browser.request("POST", "/session", &capabilities).expect("a session");
        browser.session = made["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    /// Asks the driver; its refusal is an error.
    fn request(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let (head, body) = self.host.within(|| {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
            stream.set_read_timeout(Some(LIMIT)).expect("a time above zero");
            let head = format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all((head + &body).as_bytes()).expect("it listens");
            answer(&mut BufReader::new(stream))
        });
        let mut value: Value = serde_json::from_slice(&body).expect("JSON");
        let value = value["value"].take();
        if head.starts_with("HTTP/1.1 200") { Ok(value) } else { Err(value) }
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, Value> {
        self.request("POST", &format!("/session/{}{path}", self.session), body)
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url })).expect("a page");
    }

    /// What the body of a function of the page returns.
    #[track_caller]
    pub fn script(&self, body: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": body, "args": [] })).expect("a script")
    }

    /// Waits until an element is there.
    #[track_caller]
    fn element(&self, css: &str) -> String {
        let asked = json!({ "using": "css selector", "value": css });
        wait_for(css, || {
            let found = self.post("/element", &asked).ok()?;
            found[ELEMENT].as_str().map(str::to_owned)
        })
    }

    /// Clicks an element as soon as it can be clicked.
    #[track_caller]
    pub fn click(&self, css: &str) {
        wait_for(css, || {
            self.post(&format!("/element/{}/click", self.element(css)), &json!({})).ok()
        });
    }

    /// Types into an element.
    #[track_caller]
    pub fn keys(&self, css: &str, text: &str) {
        wait_for(css, || {
            let path = format!("/element/{}/value", self.element(css));
            self.post(&path, &json!({ "text": text })).ok()
        });
    }

    /// The text of an element; empty where there is none.
    pub fn text(&self, css: &str) -> String {
        let css = Value::from(css);
        let script = format!("return document.querySelector({css})?.textContent ?? ''");
        self.script(&script).as_str().expect("text").to_owned()
    }

    /// Waits until the text of an element is as wanted; gives it.
    #[track_caller]
    pub fn wait_text(&self, css: &str, wanted: impl Fn(&str) -> bool) -> String {
        wait_for(css, || Some(self.text(css)).filter(|text| wanted(text)))
    }

    /// A command of the browser's own protocol.
    pub fn devtools(&self, command: &str, params: &Value) -> Value {
        let asked = json!({ "cmd": command, "params": params });
        self.post("/goog/cdp/execute", &asked).expect("a command")
    }

    /// Shows the page dark or light.
    pub fn scheme(&self, name: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": name });
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// What the browser complains of: scripts that failed, what the page's policy forbids.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({ "type": "browser" })).expect("a log");
        let all = log.as_array().expect("a list").iter();
        // The browser's own first page notes this and that.
        let grave = all.filter(|one| one["level"] != "INFO");
        grave.map(|one| format!("{}: {}", one["level"], one["message"])).collect()
    }

    /// Keeps a picture of the whole page for a person to look at, where
    /// `THRUWAY_SCREENSHOTS=DIR` asks for it.
    pub fn picture(&self, name: &str) {
        let Some(dir) = std::env::var_os("THRUWAY_SCREENSHOTS") else { return };
        // Transitions come to their end.
        std::thread::sleep(Duration::from_millis(500));
        let asked = json!({ "format": "png", "captureBeyondViewport": true });
        let shot = self.devtools("Page.captureScreenshot", &asked);
        let text = shot["data"].as_str().expect("a picture");
        let path = Path::new(&dir).join(format!("{name}.png.base64"));
        std::fs::write(path, text).expect("room for a picture");
    }
}

/// First line and body of an answer of HTTP.
fn answer(stream: &mut impl BufRead) -> (String, Vec<u8>) {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).expect("an answer in time");
        line.trim_end().to_owned()
    };
    let first = line();
    let fields = std::iter::from_fn(|| Some(line()).filter(|line| !line.is_empty()));
    let lens = fields.filter_map(|field| {
        let (name, value) = field.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let len: Vec<usize> = lens.collect();
    let mut body = vec![0; len.first().copied().expect("a length")];
    stream.read_exact(&mut body).expect("an answer in time");
    (first, body)
}

impl Drop for Browser<'_> {
    /// The browser ends before its driver, which leaves it otherwise.
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.request("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
    }
}
