//! Both ends of a real socket: admission, the ends of connections, and the bookkeeping of calls.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use fluxgate_wire::codec::{FRAME_MAGIC, Limits, encode};
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::{Flags, errno, role};
use fluxgate_wire::rpc::Client;
use fluxgate_wire::server::{Access, Credential, ListenError, Listener, Peer};
use fluxgate_wire::transport::{ConnectError, ConnectOptions, Connection, Disconnect, Options, socket_path};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

fn folder() -> TempDir {
    tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o700)).tempdir().unwrap()
}

fn listen(folder: &TempDir) -> Listener {
    Listener::bind(&folder.path().join("local"), Access::owner_only(), Options::default()).unwrap()
}

async fn pair(listener: &Listener) -> ((Client, fluxgate_wire::Requests), (Peer, Connection)) {
    let uri = listener.uri();
    let (client, server) = tokio::join!(Client::connect(&uri), listener.accept());
    (client.unwrap(), server.unwrap())
}

#[tokio::test]
async fn the_socket_is_the_owners_alone() {
    let folder = folder();
    let path = folder.path().join("run/local");
    let listener = Listener::bind(&path, Access::owner_only(), Options::default()).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let second = Listener::bind(&path, Access::owner_only(), Options::default());
    assert!(matches!(second, Err(ListenError::InUse { .. })), "{second:?}");
    drop(listener);
    assert!(!path.exists());

    // A socket whose process ended is replaced, a file is not.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    drop(Listener::bind(&path, Access::owner_only(), Options::default()).unwrap());
    std::fs::write(&path, "precious").unwrap();
    let on_file = Listener::bind(&path, Access::owner_only(), Options::default());
    assert!(matches!(on_file, Err(ListenError::NotSocket { .. })), "{on_file:?}");

    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let in_open = Listener::bind(&open.join("local"), Access::owner_only(), Options::default());
    assert!(matches!(in_open, Err(ListenError::FolderOpen { mode: 0o777, .. })), "{in_open:?}");
    let long = folder.path().join("x".repeat(100));
    let too_long = Listener::bind(&long, Access::owner_only(), Options::default());
    assert!(matches!(too_long, Err(ListenError::PathTooLong { .. })), "{too_long:?}");
}

#[tokio::test]
async fn each_way_not_to_connect_has_its_message() {
    let folder = folder();
    let fail = async |uri: String| Client::connect(&uri).await.unwrap_err();
    let at = |name: &str| folder.path().join(name).display().to_string();

    let missing = fail(at("absent")).await;
    assert!(missing.to_string().ends_with("absent: no such socket; is the instance running?"), "{missing}");
    std::fs::write(folder.path().join("file"), "").unwrap();
    let file = fail(format!("local://{}", at("file"))).await;
    assert!(file.to_string().ends_with("this is an ordinary file, not a socket"), "{file}");
    drop(std::os::unix::net::UnixListener::bind(folder.path().join("dead")).unwrap());
    let dead = fail(at("dead")).await;
    assert!(matches!(dead, ConnectError::NotAccepting { .. }), "{dead}");
    let ssh = fail("ssh://host/run/flux/local".into()).await;
    assert!(ssh.to_string().contains("local:///path/of/socket"), "{ssh}");
    assert!(matches!(socket_path("local://"), Err(ConnectError::BadUri { reason: "no path", .. })));
    assert!(matches!(socket_path(&"x".repeat(108)), Err(ConnectError::BadUri { .. })));
    assert_eq!(socket_path("local:///run/flux/local").unwrap(), Path::new("/run/flux/local"));
    assert_eq!(socket_path("/run/flux/local").unwrap(), Path::new("/run/flux/local"));

    // Connected, but the other side disconnects, or sends an error number.
    let raw = tokio::net::UnixListener::bind(folder.path().join("raw")).unwrap();
    let serve = async |bytes: &[u8]| {
        let (mut socket, _) = raw.accept().await.unwrap();
        socket.write_all(bytes).await.unwrap();
    };
    let (hangup, ()) = tokio::join!(fail(at("raw")), serve(b""));
    assert!(matches!(hangup, ConnectError::Hangup { .. }), "{hangup}");
    let (refused, ()) = tokio::join!(fail(at("raw")), serve(&[1]));
    assert!(matches!(refused, ConnectError::Refused { errnum: 1, .. }) && refused.is_foreign_owner());
    assert!(
        refused
            .to_string()
            .contains("refused the connection: operation not permitted (EPERM); you are user id"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_missing_socket_can_be_waited_for() {
    let folder = folder();
    let uri = folder.path().join("local").display().to_string();
    let patient = ConnectOptions { wait: Duration::from_secs(30), ..ConnectOptions::default() };
    let late = async {
        tokio::task::yield_now().await;
        let listener = listen(&folder);
        listener.accept().await.unwrap()
    };
    let (client, _server) = tokio::join!(Client::connect_with(&uri, &patient), late);
    client.unwrap();
}

#[tokio::test]
async fn r12_2_others_are_refused_or_become_guests() {
    let folder = folder();
    let mut listener = listen(&folder);
    // Only the kernel identifies a peer, so the test replaces the rule of admission.
    let stranger = Access { owner: 1000, allow_guest_user: false, allow_root_owner: false };
    listener.set_judge(Box::new(move |_| stranger.judge(4711)));
    let uri = listener.uri();
    let refused = tokio::select! {
        error = Client::connect(&uri) => error.unwrap_err(),
        accepted = listener.accept() => panic!("accepted {accepted:?}"),
    };
    assert!(matches!(refused, ConnectError::Refused { errnum: errno::EPERM, .. }), "{refused}");

    assert_eq!(stranger.judge(1000), Ok(Credential { userid: 1000, rolemask: role::OWNER | role::LOCAL }));
    assert_eq!(stranger.judge(0), Err(errno::EPERM), "root is a guest unless configured");
    let open = Access { allow_guest_user: true, allow_root_owner: true, ..stranger };
    assert_eq!(open.judge(0), Ok(Credential { userid: 0, rolemask: role::OWNER | role::LOCAL }));
    assert_eq!(open.judge(4711), Ok(Credential { userid: 4711, rolemask: role::USER | role::LOCAL }));

    // A guest's credentials are overwritten, the owner may set another sender.
    listener.set_judge(Box::new(move |_| open.judge(4711)));
    let (_client, (guest, _connection)) = pair(&listener).await;
    let mut message = Message::request("sched.alloc");
    (message.userid, message.rolemask) = (1000, role::OWNER);
    guest.stamp(&mut message);
    assert_eq!((message.userid, message.rolemask), (4711, role::USER | role::LOCAL));
    let owner = Peer { credential: open.judge(1000).unwrap(), ..guest };
    owner.stamp(&mut message);
    assert_eq!((message.userid, message.rolemask), (4711, role::USER | role::LOCAL));
    let mut plain = Message::request("sched.alloc");
    owner.stamp(&mut plain);
    assert_eq!((plain.userid, plain.rolemask), (1000, role::OWNER | role::LOCAL));
}

#[tokio::test]
async fn nonsense_closes_the_connection() {
    let folder = folder();
    let options =
        Options { limits: Limits { frame_size_max: 1000, ..Limits::default() }, ..Options::default() };
    let listener = Listener::bind(&folder.path().join("local"), Access::owner_only(), options).unwrap();
    let mut large = FRAME_MAGIC.to_ne_bytes().to_vec();
    large.extend_from_slice(&5000u32.to_be_bytes());
    let whole = encode(&Message::request("a.b")).unwrap();
    for (bytes, expected) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "bad frame: wrong frame magic"),
        (large, "bad frame: frame of 5000 bytes is too large (limit 1000)"),
        (whole[..20].to_vec(), "closed the connection within a frame (20 bytes"),
        (Vec::new(), "the other side closed the connection"),
    ] {
        let (client, server) = tokio::join!(UnixStream::connect(listener.path()), listener.accept());
        let (mut client, (_, mut server)) = (client.unwrap(), server.unwrap());
        assert_eq!(client.read_u8().await.unwrap(), 0);
        client.write_all(&bytes).await.unwrap();
        if bytes.len() == 20 || bytes.is_empty() {
            client.shutdown().await.unwrap();
        }
        let end = server.inbox.recv().await.unwrap_err();
        assert!(end.to_string().contains(expected), "{end}");
        assert_eq!(server.inbox.recv().await, Err(end), "stays so");
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "closed");
    }
}

#[tokio::test]
async fn calls_streams_and_notifications() {
    let folder = folder();
    let listener = listen(&folder);
    let ((client, mut requests), (peer, mut server)) = pair(&listener).await;
    let serve = async {
        loop {
            let Ok(mut request) = server.inbox.recv().await else { break };
            peer.stamp(&mut request);
            assert!(request.is_from_owner());
            let mut answers = match request.topic() {
                "t.echo" => vec![request.respond_json(&request.json().unwrap())],
                "t.void" => vec![request.respond()],
                "t.fail" => vec![request.respond_error(errno::ENOENT, "no such thing")],
                "t.mute" => vec![request.respond_error(errno::ENOSYS, "")],
                "t.count" => {
                    let mut all: Vec<_> = (0..3).map(|i| request.respond_json(&json!({ "i": i }))).collect();
                    all.push(request.respond_error(errno::ENODATA, ""));
                    all
                }
                "t.note" => {
                    assert!(!request.wants_response() && request.matchtag() == 0);
                    vec![Message::request("mine.hello").with_matchtag(9)]
                }
                other => panic!("{other}"),
            };
            // Answers of different calls may come in any order (R6-5); those of one call stay in order.
            for answer in answers.drain(..) {
                server.outbox.send(&answer).unwrap();
            }
        }
    };
    let ask = async {
        assert_eq!(client.rpc("t.echo", json!({"a": 1})).await.unwrap(), json!({"a": 1}));
        assert_eq!(client.rpc("t.void", Value::Null).await.unwrap(), Value::Null);
        let error = client.rpc("t.fail", Value::Null).await.unwrap_err();
        assert_eq!((error.errnum, error.to_string().as_str()), (2, "t.fail: no such thing"));
        let error = client.rpc("t.mute", Value::Null).await.unwrap_err();
        assert_eq!(error.to_string(), "t.mute: function not implemented (ENOSYS)");
        let mut stream = client.stream("t.count", Value::Null).unwrap();
        let mut seen = Vec::new();
        while let Some(response) = stream.next().await {
            seen.push(response.unwrap()["i"].clone());
        }
        assert_eq!(seen, [json!(0), json!(1), json!(2)]);
        assert!(stream.next().await.is_none());
        client.notify("t.note", json!({})).unwrap();
        let request = requests.recv().await.unwrap();
        assert_eq!((request.topic(), request.matchtag()), ("mine.hello", 9));
        client.send(&request.respond()).unwrap();
        client.flush().await;
        assert_eq!(client.in_flight(), 0);
    };
    tokio::select! {
        () = ask => {}
        () = serve => panic!("the server ended"),
    }
}

#[tokio::test]
async fn r6_2_a_matchtag_is_not_reused_while_its_answer_is_due() {
    let folder = folder();
    let listener = listen(&folder);
    let ((client, _requests), (_, mut server)) = pair(&listener).await;
    {
        // A caller that stops waiting.
        let call = client.rpc("t.slow", Value::Null);
        tokio::pin!(call);
        let slow = tokio::select! {
            biased;
            _ = &mut call => panic!("unexpected end of the call"),
            request = server.inbox.recv() => request.unwrap(),
        };
        assert_eq!(slow.matchtag(), 1);
        drop(client.stream("t.stream", Value::Null).unwrap());
        let stream = server.inbox.recv().await.unwrap();
        assert_eq!((stream.matchtag(), stream.is_streaming()), (2, true));
        assert_eq!(client.in_flight(), 2);
        server.outbox.send(&slow.respond()).unwrap();
        assert_eq!(call.await.unwrap(), Value::Null);
        // Good responses do not free the tag of a stream, its error does.
        server.outbox.send(&stream.respond_json(&json!({}))).unwrap();
        assert_eq!(client.in_flight(), 1);
        server.outbox.send(&stream.respond_error(errno::ENODATA, "")).unwrap();
    }
    let (answer, request) = tokio::join!(client.rpc("t.last", Value::Null), async {
        let request = server.inbox.recv().await.unwrap();
        server.outbox.send(&request.respond()).unwrap();
        request
    });
    answer.unwrap();
    assert_eq!(request.matchtag(), 3);
    assert_eq!(client.in_flight(), 0);
}

#[tokio::test]
async fn r3_7_a_lost_connection_fails_every_call() {
    let folder = folder();
    let listener = listen(&folder);
    let ((client, mut requests), (_, server)) = pair(&listener).await;
    let mut stream = client.stream("t.stream", Value::Null).unwrap();
    let (result, ()) = tokio::join!(client.rpc("t.slow", Value::Null), async { drop(server) });
    let error = result.unwrap_err();
    assert_eq!(error.errnum, errno::ECANCELED);
    assert_eq!(error.to_string(), "t.slow: connection lost: the other side closed the connection");
    assert_eq!(stream.next().await.unwrap().unwrap_err().errnum, errno::ECANCELED);
    assert!(stream.next().await.is_none());
    assert_eq!(client.ended().await, Disconnect::Closed);
    assert_eq!(client.rpc("t.more", Value::Null).await.unwrap_err().errnum, errno::ECANCELED);
    assert!(requests.recv().await.is_none());
}

#[tokio::test]
async fn a_dropped_client_closes_the_connection_after_its_last_word() {
    let folder = folder();
    let listener = listen(&folder);
    let ((client, requests), (_, mut server)) = pair(&listener).await;
    client.notify("t.bye", json!({})).unwrap();
    drop((client, requests));
    assert_eq!(server.inbox.recv().await.unwrap().topic(), "t.bye");
    assert_eq!(server.inbox.recv().await, Err(Disconnect::Closed));
}

#[tokio::test]
async fn requests_without_a_service_are_answered() {
    let folder = folder();
    let listener = listen(&folder);
    let ((client, requests), (_, mut server)) = pair(&listener).await;
    drop(requests);
    server.outbox.send(&Message::request("mine.a").noresponse()).unwrap();
    server.outbox.send(&Message::request("mine.b").with_matchtag(5)).unwrap();
    let answer = server.inbox.recv().await.unwrap();
    assert_eq!((answer.topic(), answer.errnum(), answer.matchtag()), ("mine.b", errno::ENOSYS, 5));
    drop(client);
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_dropped_and_never_blocks_us() {
    let folder = folder();
    let options = Options { outbound_bytes_max: 1 << 20, ..Options::default() };
    let listener = Listener::bind(&folder.path().join("local"), Access::owner_only(), options).unwrap();
    let (client, server) = tokio::join!(UnixStream::connect(listener.path()), listener.accept());
    let (_client, (_, mut server)) = (client.unwrap(), server.unwrap());
    let message = Message::request("a.b").with_payload(vec![0; 100_000]);
    let error = loop {
        if let Err(error) = server.outbox.send(&message) {
            break error;
        }
    };
    assert!(error.to_string().contains("does not read"), "{error}");
    assert!(server.outbox.is_closed());
    assert_eq!(server.inbox.recv().await, Err(Disconnect::Local));
}

#[tokio::test]
async fn a_flood_waits_in_the_kernel() {
    let folder = folder();
    let options = Options { inbound_messages_max: 4, inbound_bytes_max: 8 << 10, ..Options::default() };
    let listener = Listener::bind(&folder.path().join("local"), Access::owner_only(), options).unwrap();
    let ((client, _requests), (_, mut server)) = pair(&listener).await;
    for i in 0..2000u32 {
        let message = Message::request("a.b").with_payload(vec![0; 3000]).with_matchtag(i);
        client.send(&message.with_flags(Flags::NORESPONSE)).unwrap();
    }
    for i in 0..2000u32 {
        assert_eq!(server.inbox.recv().await.unwrap().matchtag(), i);
    }
}
