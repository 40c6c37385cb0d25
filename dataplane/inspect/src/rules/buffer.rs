//! Where a rule looks.

/// Direction of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// From the side that opened the session.
    ToServer,
    /// From the other.
    ToClient,
}

impl Side {
    /// 0 for what goes to the server, 1 for the other: as streams count directions.
    pub const fn index(self) -> usize {
        match self {
            Side::ToServer => 0,
            Side::ToClient => 1,
        }
    }

    /// The side of a direction.
    pub const fn of(direction: usize) -> Side {
        if direction == 0 { Side::ToServer } else { Side::ToClient }
    }
}

macro_rules! buffers {
    ($($(#[$doc:meta])* $name:ident = $sticky:literal, $modifier:literal, $side:expr;)*) => {
        /// A part of what flows. All but [`Buffer::Payload`] and the bodies are complete when a
        /// message's head is there; those come piece by piece.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Buffer {
            $($(#[$doc])* $name,)*
        }

        impl Buffer {
            /// All of them, by index.
            pub const ALL: &'static [Buffer] = &[$(Buffer::$name,)*];

            /// The option that leads to it: what follows is about this buffer.
            pub const fn name(self) -> &'static str {
                match self { $(Buffer::$name => $sticky,)* }
            }

            /// The option behind a content that moves it here; empty where there is none.
            pub const fn modifier(self) -> &'static str {
                match self { $(Buffer::$name => $modifier,)* }
            }

            /// The only side that has it; none when both do.
            pub const fn side(self) -> Option<Side> {
                match self { $(Buffer::$name => $side,)* }
            }
        }
    };
}

const REQUEST: Option<Side> = Some(Side::ToServer);
const RESPONSE: Option<Side> = Some(Side::ToClient);

buffers! {
    /// The stream's or the packet's payload.
    Payload = "pkt_data", "", None;
    /// The request's method.
    HttpMethod = "http.method", "http_method", REQUEST;
    /// The request's target, decoded: %-escapes resolved, dot segments and double slashes removed.
    HttpUri = "http.uri", "http_uri", REQUEST;
    /// The request's target, as sent.
    HttpRawUri = "http.uri.raw", "http_raw_uri", REQUEST;
    /// The header lines but cookies, each `Name: value` CR LF.
    HttpHeader = "http.header", "http_header", None;
    /// The header lines as sent, with cookies.
    HttpRawHeader = "http.header.raw", "http_raw_header", None;
    /// The value of `Cookie`, or of `Set-Cookie`.
    HttpCookie = "http.cookie", "http_cookie", None;
    /// The value of `User-Agent`.
    HttpUserAgent = "http.user_agent", "http_user_agent", REQUEST;
    /// The host asked for, lower case, without port.
    HttpHost = "http.host", "http_host", REQUEST;
    /// The host asked for, as sent.
    HttpRawHost = "http.host.raw", "http_raw_host", REQUEST;
    /// The status code.
    HttpStatCode = "http.stat_code", "http_stat_code", RESPONSE;
    /// What stands behind the status code.
    HttpStatMsg = "http.stat_msg", "http_stat_msg", RESPONSE;
    /// The first line of a request.
    HttpRequestLine = "http.request_line", "http_request_line", REQUEST;
    /// The first line of a response.
    HttpResponseLine = "http.response_line", "http_response_line", RESPONSE;
    /// The version in the first line.
    HttpProtocol = "http.protocol", "http_protocol", None;
    /// The value of `Content-Type`.
    HttpContentType = "http.content_type", "http_content_type", None;
    /// The value of `Content-Length`.
    HttpContentLen = "http.content_len", "http_content_len", None;
    /// The value of `Referer`.
    HttpReferer = "http.referer", "http_referer", REQUEST;
    /// The value of `Accept`.
    HttpAccept = "http.accept", "http_accept", REQUEST;
    /// The value of `Accept-Encoding`.
    HttpAcceptEnc = "http.accept_enc", "http_accept_enc", REQUEST;
    /// The value of `Accept-Language`.
    HttpAcceptLang = "http.accept_lang", "http_accept_lang", REQUEST;
    /// The value of `Connection`.
    HttpConnection = "http.connection", "http_connection", None;
    /// The value of `Server`.
    HttpServer = "http.server", "http_server", RESPONSE;
    /// The value of `Location`.
    HttpLocation = "http.location", "http_location", RESPONSE;
    /// The request's body.
    HttpClientBody = "http.request_body", "http_client_body", REQUEST;
    /// The response's body.
    HttpServerBody = "http.response_body", "http_server_body", RESPONSE;
    /// The body of the message, whichever it is.
    FileData = "file.data", "", None;
}

impl Buffer {
    /// How many there are.
    pub const COUNT: usize = Buffer::ALL.len();

    /// Whether it comes piece by piece, and may have no end.
    pub const fn is_stream(self) -> bool {
        matches!(
            self,
            Buffer::Payload | Buffer::HttpClientBody | Buffer::HttpServerBody | Buffer::FileData
        )
    }

    /// Whether it is a body of a message.
    pub const fn is_body(self) -> bool {
        self.is_stream() && !matches!(self, Buffer::Payload)
    }

    /// Its place in [`Buffer::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}
