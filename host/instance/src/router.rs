//! Clients, the services that they offer, and the routing of messages.
//!
//! Routing works as in a broker (RFC 3): a request gets a hop added for the client and one for the broker, and a
//! response loses them again. The router does not know the meaning of a topic.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_wire::server::Peer;
use fluxgate_wire::{Message, ReplyTo, errno};

use crate::effect::ClientId;
use crate::fail::Fail;
use crate::limits::{FORWARDED_MAX, NAME_LEN_MAX, SERVICES_PER_CLIENT_MAX};

/// Services of the instance itself. Each has a UUID of its own, by which responses are routed.
pub(crate) const INTERNAL: [&str; 13] = [
    "attr",
    "broker",
    "config",
    "event",
    "fluxgate-instance",
    "job-info",
    "job-ingest",
    "job-list",
    "job-manager",
    "kvs",
    "log",
    "resource",
    "service",
];

#[derive(Debug)]
struct Client {
    peer: Peer,
    /// Services that the client offers.
    offers: BTreeSet<String>,
    /// Services that the client sent requests to, with one request of each, for the disconnect requests.
    used: BTreeMap<String, Message>,
}

/// Key of an unanswered request: its sender, and the sender's number for it.
type Outstanding = (String, u32);

/// The router; see the [module](self).
#[derive(Debug)]
pub(crate) struct Router {
    broker: String,
    clients: BTreeMap<ClientId, Client>,
    by_uuid: BTreeMap<String, ClientId>,
    services: BTreeMap<String, ClientId>,
    /// Requests that wait for an answer of a client, by that client.
    forwarded: BTreeMap<ClientId, BTreeMap<Outstanding, ReplyTo>>,
    forwarded_count: usize,
}

/// Destination of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// An internal service, by its name in [`INTERNAL`].
    Internal(&'static str),
    /// A client.
    Client(ClientId),
    /// The destination is gone, or never existed.
    Nowhere,
}

/// The consequences of a disconnected client.
#[derive(Debug, Default)]
pub(crate) struct Farewell {
    /// Services that are no longer offered.
    pub services: Vec<String>,
    /// Disconnect requests for services of other clients.
    pub disconnects: Vec<(ClientId, Message)>,
    /// Requests that it will not answer any more.
    pub unanswered: Vec<ReplyTo>,
}

/// The UUID of an internal service.
pub(crate) fn internal_uuid(service: &str) -> String {
    let index = INTERNAL.iter().position(|name| *name == service).unwrap_or(INTERNAL.len());
    format!("f1a6e000-0000-4000-8000-{:012x}", index + 1)
}

/// The service part of a topic: everything before the last dot.
pub(crate) fn service_of(topic: &str) -> &str {
    topic.rsplit_once('.').map_or(topic, |(service, _)| service)
}

impl Router {
    /// The router of the broker with this UUID.
    pub(crate) fn new(broker: String) -> Self {
        Router {
            broker,
            clients: BTreeMap::new(),
            by_uuid: BTreeMap::new(),
            services: BTreeMap::new(),
            forwarded: BTreeMap::new(),
            forwarded_count: 0,
        }
    }

    /// A client connected.
    pub(crate) fn connect(&mut self, id: ClientId, peer: Peer) {
        self.by_uuid.insert(peer.uuid.clone(), id);
        self.clients.insert(id, Client { peer, offers: BTreeSet::new(), used: BTreeMap::new() });
    }

    /// True while the client is connected.
    pub(crate) fn is_connected(&self, id: ClientId) -> bool {
        self.clients.contains_key(&id)
    }

    /// Number of clients.
    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    /// The client of this UUID.
    pub(crate) fn client_of(&self, uuid: &str) -> Option<ClientId> {
        self.by_uuid.get(uuid).copied()
    }

    /// The client that offers a service.
    pub(crate) fn provider(&self, service: &str) -> Option<ClientId> {
        self.services.get(service).copied()
    }

    /// Services offered by clients.
    pub(crate) fn services(&self) -> impl Iterator<Item = (&str, ClientId)> {
        self.services.iter().map(|(name, client)| (name.as_str(), *client))
    }

    /// `service.add`.
    pub(crate) fn add_service(&mut self, id: ClientId, name: &str) -> Result<(), Fail> {
        let valid = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(valid) {
            return Err(Fail::invalid(format!("field 'service': '{name}' is not the name of a service")));
        }
        if INTERNAL.contains(&name) || self.services.contains_key(name) {
            return Err(Fail::new(errno::EEXIST, format!("service '{name}' is registered already")));
        }
        let Some(client) = self.clients.get_mut(&id) else { return Err(Fail::missing("not connected")) };
        if client.offers.len() >= SERVICES_PER_CLIENT_MAX {
            return Err(Fail::invalid(format!("more than {SERVICES_PER_CLIENT_MAX} services of one client")));
        }
        client.offers.insert(name.to_owned());
        self.services.insert(name.to_owned(), id);
        Ok(())
    }

    /// `service.remove`.
    pub(crate) fn remove_service(&mut self, id: ClientId, name: &str) -> Result<(), Fail> {
        if self.services.get(name) != Some(&id) {
            return Err(Fail::missing(format!("service '{name}' is not registered by you")));
        }
        self.services.remove(name);
        if let Some(client) = self.clients.get_mut(&id) {
            client.offers.remove(name);
        }
        Ok(())
    }

    /// Receives a request from a client: credentials and hops are added, the service is recorded.
    pub(crate) fn ingress(&mut self, id: ClientId, message: &mut Message) -> bool {
        let Some(client) = self.clients.get_mut(&id) else { return false };
        client.peer.stamp(message);
        let uuid = client.peer.uuid.clone();
        message.push_route(&uuid);
        message.push_route(&self.broker);
        let service = service_of(message.topic());
        // A client may name any service, so only existing ones are recorded.
        if !client.used.contains_key(service) && self.services.contains_key(service) {
            let mut note = message.clone();
            note.payload = None;
            client.used.insert(service.to_owned(), note);
        }
        true
    }

    /// Adds the hops of an internal sender to a request.
    pub(crate) fn sign_internal(&self, service: &str, message: &mut Message) {
        message.routes = Some(vec![self.broker.clone(), internal_uuid(service)]);
    }

    /// Records that a client has to answer a request that is about to be sent to it.
    pub(crate) fn note_forwarded(&mut self, to: ClientId, message: &Message) -> Result<(), Fail> {
        if !message.wants_response() || message.matchtag() == 0 {
            return Ok(());
        }
        if self.forwarded_count >= FORWARDED_MAX {
            return Err(Fail::new(errno::EAGAIN, "too many requests are waiting for answers"));
        }
        let key = (message.sender().unwrap_or("").to_owned(), message.matchtag());
        if self.forwarded.entry(to).or_default().insert(key, message.reply_to()).is_none() {
            self.forwarded_count += 1;
        }
        Ok(())
    }

    /// Receives a response from a client: returns its destination, with its hops removed.
    pub(crate) fn response(&mut self, from: ClientId, message: &mut Message) -> Destination {
        let last = !message.is_streaming() || message.errnum() != 0;
        if last && let Some(owed) = self.forwarded.get_mut(&from) {
            let key = (message.sender().unwrap_or("").to_owned(), message.matchtag());
            if owed.remove(&key).is_some() {
                self.forwarded_count -= 1;
            }
        }
        self.deliver(message)
    }

    /// Removes the hops from a response, and returns its destination.
    pub(crate) fn deliver(&self, message: &mut Message) -> Destination {
        match message.pop_route() {
            Some(hop) if hop == self.broker => {}
            _ => return Destination::Nowhere,
        }
        let Some(hop) = message.pop_route() else { return Destination::Nowhere };
        if let Some(id) = self.by_uuid.get(&hop) {
            return Destination::Client(*id);
        }
        match INTERNAL.iter().find(|name| internal_uuid(name) == hop) {
            Some(name) => Destination::Internal(name),
            None => Destination::Nowhere,
        }
    }

    /// A client disconnected.
    pub(crate) fn disconnect(&mut self, id: ClientId) -> Farewell {
        let mut farewell = Farewell::default();
        let Some(client) = self.clients.remove(&id) else { return farewell };
        self.by_uuid.remove(&client.peer.uuid);
        for name in &client.offers {
            self.services.remove(name);
        }
        farewell.services = client.offers.into_iter().collect();
        for (service, mut note) in client.used {
            let Some(provider) = self.services.get(&service) else { continue };
            note.topic = Some(format!("{service}.disconnect"));
            note.flags = note.flags.with(fluxgate_wire::Flags::NORESPONSE);
            farewell.disconnects.push((*provider, note));
        }
        if let Some(owed) = self.forwarded.remove(&id) {
            self.forwarded_count -= owed.len();
            farewell.unanswered = owed.into_values().collect();
        }
        farewell
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_wire::role;
    use fluxgate_wire::server::Credential;

    use super::*;

    fn peer(uuid: &str, userid: u32, rolemask: u32) -> Peer {
        Peer { credential: Credential { userid, rolemask }, pid: None, uuid: uuid.into() }
    }

    fn router() -> Router {
        let mut router = Router::new("broker".into());
        router.connect(ClientId(1), peer("one", 1000, role::OWNER | role::LOCAL));
        router.connect(ClientId(2), peer("two", 1000, role::OWNER | role::LOCAL));
        router
    }

    #[test]
    fn a_request_between_clients_gains_two_hops_and_its_response_loses_them() {
        let mut router = router();
        router.add_service(ClientId(2), "sched").unwrap();
        assert_eq!(router.add_service(ClientId(1), "sched").unwrap_err().errnum, errno::EEXIST);
        assert_eq!(router.add_service(ClientId(1), "kvs").unwrap_err().errnum, errno::EEXIST);
        let mut request = Message::request("sched.ping").with_matchtag(3);
        assert!(router.ingress(ClientId(1), &mut request));
        assert_eq!(request.routes.as_deref(), Some(&["broker".to_owned(), "one".to_owned()][..]));
        assert_eq!((request.userid, request.rolemask), (1000, role::OWNER | role::LOCAL));
        router.note_forwarded(ClientId(2), &request).unwrap();
        let mut response = request.respond();
        assert_eq!(router.response(ClientId(2), &mut response), Destination::Client(ClientId(1)));
        assert_eq!(response.routes.as_deref(), Some(&[][..]));
        assert_eq!(router.forwarded_count, 0);
    }

    #[test]
    fn responses_find_internal_services_and_nothing_else() {
        let mut router = router();
        let mut request = Message::request("sched.alloc");
        router.sign_internal("job-manager", &mut request);
        let mut response = request.respond();
        assert_eq!(router.response(ClientId(2), &mut response), Destination::Internal("job-manager"));
        let mut forged = Message::request("x.y").respond();
        assert_eq!(router.response(ClientId(2), &mut forged), Destination::Nowhere);
    }

    #[test]
    fn r6_3_a_client_that_goes_away_is_announced_and_its_debts_are_known() {
        let mut router = router();
        router.add_service(ClientId(2), "sched").unwrap();
        let mut request = Message::request("sched.stats-get").with_matchtag(9);
        router.ingress(ClientId(1), &mut request);
        router.note_forwarded(ClientId(2), &request).unwrap();
        let farewell = router.disconnect(ClientId(1));
        assert_eq!(farewell.disconnects.len(), 1);
        let (to, message) = &farewell.disconnects[0];
        assert_eq!(
            (*to, message.topic(), message.wants_response()),
            (ClientId(2), "sched.disconnect", false)
        );
        assert_eq!(message.sender(), Some("one"));
        let farewell = router.disconnect(ClientId(2));
        assert_eq!(farewell.services, ["sched"]);
        assert_eq!(farewell.unanswered.len(), 1);
        assert!(router.provider("sched").is_none());
    }

    #[test]
    fn adm_2_a_guest_cannot_forge_a_credential_and_the_owner_can() {
        let mut router = router();
        router.connect(ClientId(3), peer("guest", 2000, role::USER | role::LOCAL));
        let mut forged = Message::request("kvs.commit");
        (forged.userid, forged.rolemask) = (1000, role::OWNER);
        let mut from_owner = forged.clone();
        from_owner.userid = 77;
        router.ingress(ClientId(3), &mut forged);
        assert_eq!((forged.userid, forged.rolemask), (2000, role::USER | role::LOCAL));
        router.ingress(ClientId(1), &mut from_owner);
        assert_eq!((from_owner.userid, from_owner.rolemask), (77, role::OWNER));
    }
}
