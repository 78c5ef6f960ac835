//! Who decides which queue: the default policy, and the policies that queues have of their own.
//!
//! Each of them hears what happens to the jobs of its queues (and to jobs of which nobody knows the queue: those that
//! ran before this scheduler began), is asked for their keys, and makes their passes. One that fails is missing only
//! there. What comes and goes does so in `swap.rs`.

use fluxgate_formats::JobId;

use crate::BUILTIN;
use crate::config::OnBreach;
use crate::core::QueueId;
use crate::core::post::{At, Post};
use crate::engine::Engine;
use crate::event::{Action, PolicyNotice};
use crate::policy::{JobEvent, JobEventKind, Policy, PolicyCost, PolicyError, SavedState};
use crate::stats::QueueCounts;
use crate::swap::{CatchUp, HandOver, Seat, SwapError, SwapState, WarmUp, hand_over};

/// The policy that a queue has of its own.
#[derive(Default)]
pub(crate) struct Own {
    /// `None` while the default policy still decides, and after a failure.
    pub(crate) live: Option<Seat>,
    pub(crate) next: Option<Next>,
}

/// What is on its way for one queue.
pub(crate) enum Next {
    /// Another policy of its own.
    Swap(WarmUp),
    /// The default policy again, which keys those who wait.
    Back(GiveBack),
}

/// See [`Next::Back`].
#[derive(Default)]
pub(crate) struct GiveBack {
    keys: CatchUp,
    /// Jobs that came or changed since.
    to_key: Vec<JobId>,
}

impl Own {
    fn warm_up(&mut self) -> Option<&mut WarmUp> {
        match &mut self.next {
            Some(Next::Swap(warm_up)) => Some(warm_up),
            _ => None,
        }
    }
}

/// Who decides a queue, as [`Engine::deciders`] says it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decider<'a> {
    /// The queue, empty for the anonymous one.
    pub queue: &'a str,
    /// Name of the policy.
    pub policy: &'a str,
    /// Is it the queue's own, or its fallback?
    pub own: bool,
    /// The policy whose failure keeps everything from starting there, if that is so.
    pub held: Option<&'a str>,
    /// Jobs that wait there.
    pub pending: usize,
    /// What was done there, whoever decided.
    pub counts: QueueCounts,
    /// A swap on its way that is only about this queue.
    pub swap: Option<SwapState>,
    /// Cost of its own policy; nothing for the default one, which is in [`Engine::policy_cost`].
    pub cost: PolicyCost,
}

/// Who is in the way of a swap.
fn in_progress(name: &str) -> SwapError {
    SwapError::InProgress(name.to_owned())
}

impl Engine {
    /// The policy that runs at a post.
    pub(crate) fn live_at(&mut self, post: Post) -> Option<&mut Seat> {
        match post {
            Post::Default => self.live.as_mut(),
            Post::Queue(queue) => self.own.get_mut(&queue)?.live.as_mut(),
        }
    }

    pub(crate) fn take_live(&mut self, post: Post) -> Option<Seat> {
        match post {
            Post::Default => self.live.take(),
            Post::Queue(queue) => self.own.get_mut(&queue)?.live.take(),
        }
    }

    pub(crate) fn set_live(&mut self, post: Post, seat: Seat) -> Option<Seat> {
        match post {
            Post::Default => self.live.replace(seat),
            Post::Queue(queue) => self.own.entry(queue).or_default().live.replace(seat),
        }
    }

    /// Name of the policy at a post.
    pub(crate) fn name_at(&self, post: Post) -> &str {
        let seat = match post {
            Post::Default => self.live.as_ref(),
            Post::Queue(queue) => self.own.get(&queue).and_then(|own| own.live.as_ref()),
        };
        seat.map_or(BUILTIN, |seat| seat.policy.name())
    }

    /// Name of the policy that decides a queue.
    pub(crate) fn decider(&self, queue: QueueId) -> &str {
        self.name_at(self.core().post_of(queue))
    }

    /// Who decides each queue that was heard of, in the order in which they were.
    pub fn deciders(&self) -> impl Iterator<Item = Decider<'_>> {
        self.core().queues.iter().zip(0..).map(|(queue, id)| {
            let own = self.own.get(&id);
            let swap = own.and_then(|own| own.next.as_ref()).map(|next| match next {
                Next::Swap(warm_up) => warm_up.progress(),
                Next::Back(back) => back.keys.progress(self.policy_name()),
            });
            let cost = own.and_then(|own| own.live.as_ref()).map(|seat| seat.policy.cost());
            Decider {
                queue: &queue.name,
                policy: self.decider(id),
                own: queue.own,
                held: if queue.own { queue.held.as_deref() } else { self.held() },
                pending: queue.native.len(),
                counts: queue.counts,
                swap,
                cost: cost.unwrap_or_default(),
            }
        })
    }

    /// Cost of the policies that queues have of their own, by queue.
    pub fn own_costs(&self) -> impl Iterator<Item = (&str, PolicyCost)> {
        self.own.iter().filter_map(|(id, own)| {
            let seat = own.live.as_ref()?;
            Some((self.core().queues[*id as usize].name.as_str(), seat.policy.cost()))
        })
    }

    /// Name of the policy that a queue has of its own; [`BUILTIN`] when that failed.
    pub fn own_policy(&self, queue: &str) -> Option<&str> {
        let id = self.core().known_queue(queue)?;
        self.core().queues[id as usize].own.then(|| self.name_at(Post::Queue(id)))
    }

    /// The swap of the default policy that is on its way.
    pub fn swap_state(&self) -> Option<SwapState> {
        self.warm_up.as_ref().map(WarmUp::progress)
    }

    /// Is anything on its way?
    pub fn is_swapping(&self) -> bool {
        self.warm_up.is_some() || self.own.values().any(|own| own.next.is_some())
    }

    /// What keeps a swap of the default policy from beginning now: another one, or a queue that is just about to leave
    /// it or to come back to it.
    pub fn swap_in_the_way(&self) -> Option<&str> {
        let other = self.warm_up.as_ref().map(WarmUp::name);
        other.or_else(|| {
            self.own.iter().find_map(|(queue, own)| match &own.next {
                Some(Next::Swap(warm_up)) => {
                    (self.core().post_of(*queue) == Post::Default).then_some(warm_up.name())
                }
                Some(Next::Back(_)) => Some(self.policy_name()),
                None => None,
            })
        })
    }

    /// Begin to replace the default policy, which decides all queues without a policy of their own. The successor is
    /// given the old one's state now; it is warmed up by the following calls of [`Engine::pass`] and takes over in one
    /// of them, told by [`PolicyNotice::Swapped`] or [`PolicyNotice::SwapFailed`].
    ///
    /// # Errors
    /// [`SwapError`] if another swap is on its way or the successor failed at once. The returned actions
    /// are to be carried out like those of [`Engine::step`].
    pub fn swap(&mut self, successor: Box<dyn Policy>) -> Result<Vec<Action>, SwapError> {
        let kept = self.offer.take();
        if let Some(other) = self.swap_in_the_way() {
            return Err(in_progress(other));
        }
        let mut out = Vec::new();
        self.warm_up = Some(self.begin(successor, kept, Post::Default, Post::Default, &mut out)?);
        Ok(out)
    }

    /// The same for one queue: a policy of its own, which only this queue is decided by. All that is said of it is in
    /// [`PolicyNotice::Queue`]. Nothing changes for other queues, and swaps of theirs may be on their way.
    ///
    /// # Errors
    /// As [`Engine::swap`]; and if there are too many queues.
    pub fn swap_queue(&mut self, queue: &str, successor: Box<dyn Policy>) -> Result<Vec<Action>, SwapError> {
        let kept = self.offer.take();
        let core = self.core_mut();
        let max = core.config.queues_max;
        let id = core.queue_id(queue).ok_or_else(|| SwapError::Queues { name: queue.to_owned(), max })?;
        let before = core.post_of(id);
        if let Some(other) = self.queue_in_the_way(id) {
            return Err(in_progress(other));
        }
        let mut out = Vec::new();
        let warm_up = self.begin(successor, kept, Post::Queue(id), before, &mut out)?;
        self.own.entry(id).or_default().next = Some(Next::Swap(warm_up));
        Ok(out)
    }

    /// Begin to let the default policy decide a queue again that has one of its own. Told by
    /// [`PolicyNotice::GivenBack`]. What the queue's own policy remembers is lost.
    ///
    /// # Errors
    /// [`SwapError`] if the queue has none of its own, or something else is on its way there.
    pub fn give_back(&mut self, queue: &str) -> Result<(), SwapError> {
        let known = self.core().known_queue(queue).filter(|id| self.core().queues[*id as usize].own);
        let id = known.ok_or_else(|| SwapError::NotOwn(queue.to_owned()))?;
        // The successor of the default policy would not know these jobs.
        if let Some(other) = self.queue_in_the_way(id).or(self.warm_up.as_ref().map(WarmUp::name)) {
            return Err(in_progress(other));
        }
        if self.live.is_some() {
            let left = self.core_mut().open(Post::Queue(id), At::Next);
            self.retired.orders.extend(left);
        }
        self.own.entry(id).or_default().next = Some(Next::Back(GiveBack::default()));
        Ok(())
    }

    /// What keeps a swap of one queue from beginning now.
    fn queue_in_the_way(&self, id: QueueId) -> Option<&str> {
        match self.own.get(&id).and_then(|own| own.next.as_ref()) {
            Some(Next::Swap(warm_up)) => Some(warm_up.name()),
            Some(Next::Back(_)) => Some(self.policy_name()),
            None if self.core().post_of(id) == Post::Default => self.warm_up.as_ref().map(WarmUp::name),
            None => None,
        }
    }

    /// A successor for `post`, with the state of whoever decides `before`.
    fn begin(
        &mut self,
        mut successor: Box<dyn Policy>,
        kept: Option<SavedState>,
        post: Post,
        before: Post,
        out: &mut Vec<Action>,
    ) -> Result<WarmUp, SwapError> {
        // A queue that gets a policy of its own has had one before, if there is something kept: that is its state.
        let own = kept.is_some() && post != before;
        let live = self.live_at(before).filter(|_| !own);
        let state = match hand_over(live, kept, successor.as_mut()) {
            HandOver::Done(state) => state,
            HandOver::LiveFailed(error) => {
                self.fail_live(before, error, out);
                false
            }
            HandOver::SuccessorFailed(error) => {
                let name = successor.name().to_owned();
                self.retired.policies.push(successor);
                return Err(SwapError::Failed { name, error });
            }
        };
        let left = self.core_mut().open(post, At::Next);
        self.retired.orders.extend(left);
        let mut warm_up = WarmUp::new(successor, post, state);
        if let Some(live) = self.live_at(before).filter(|_| state && !own)
            && warm_up.seat.policy.abilities().observing
        {
            // What the saved state does not know yet, its heir hears as well.
            warm_up.seat.events.clone_from(&live.events);
        }
        Ok(warm_up)
    }

    /// Give up the swap of the default policy that is on its way, if there is one: the running policy stays. The name
    /// of the successor.
    pub fn abandon_swap(&mut self) -> Option<String> {
        let warm_up = self.warm_up.take()?;
        let name = warm_up.name().to_owned();
        self.drop_warm_up(Post::Default, warm_up);
        Some(name)
    }

    /// The same for what is on its way for one queue.
    pub fn abandon_queue_swap(&mut self, queue: &str) -> Option<String> {
        let id = self.core().known_queue(queue)?;
        let name = match self.own.get_mut(&id)?.next.take()? {
            Next::Swap(warm_up) => {
                let name = warm_up.name().to_owned();
                self.drop_warm_up(Post::Queue(id), warm_up);
                name
            }
            Next::Back(_) => {
                let left = self.core_mut().close(Post::Queue(id), At::Next);
                self.retired.orders.extend(left);
                self.policy_name().to_owned()
            }
        };
        Some(name)
    }

    fn drop_warm_up(&mut self, post: Post, warm_up: WarmUp) {
        let left = self.core_mut().close(post, At::Next);
        self.retired.orders.extend(left);
        self.retired.policies.push(warm_up.seat.policy);
        if let Post::Queue(queue) = post
            && self.core().post_of(queue) == Post::Default
        {
            self.own.remove(&queue);
        }
    }

    /// What there is to say of the policy at a post.
    fn notice(&self, post: Post, notice: PolicyNotice) -> Action {
        Action::Notice(match post {
            Post::Default => notice,
            Post::Queue(queue) => {
                let queue = self.core().queues[queue as usize].name.clone();
                PolicyNotice::Queue { queue, notice: Box::new(notice) }
            }
        })
    }

    /// The policy that runs at this post cannot be trusted any more.
    pub(crate) fn fail_live(&mut self, post: Post, error: PolicyError, out: &mut Vec<Action>) {
        let Some(seat) = self.take_live(post) else { return };
        let core = self.core_mut();
        core.stats.policy_failures += 1;
        if post == Post::Default {
            core.order_nodes(None);
        }
        let left = core.close(post, At::Live);
        for queue in core.queues_of(post) {
            // It may have been parked on what the failed pass had staged.
            queue.unpark_all();
        }
        core.dirty(post);
        if core.config.on_breach == OnBreach::Hold {
            core.hold(post, seat.policy.name());
        }
        out.push(self.notice(post, PolicyNotice::Failed { name: seat.policy.name().to_owned(), error }));
        self.retired.orders.extend(left);
        self.retired.policies.push(seat.policy);
    }

    fn own_queues(&self) -> Vec<QueueId> {
        self.own.keys().copied().collect()
    }

    /// Hand over what happened to the policies that run.
    pub(crate) fn feed_all(&mut self, now: f64, out: &mut Vec<Action>) {
        self.feed_live(Post::Default, now, out);
        for queue in self.own_queues() {
            self.feed_live(Post::Queue(queue), now, out);
        }
    }

    fn feed_live(&mut self, post: Post, now: f64, out: &mut Vec<Action>) {
        let Some(mut seat) = self.take_live(post) else { return };
        let fed = seat.feed(self.core_mut(), now, post, At::Live);
        self.set_live(post, seat);
        if let Err(error) = fed {
            self.fail_live(post, error, out);
        }
    }

    /// Bring what is on its way to its end without a pass, whatever that costs: for a driver that nobody waits for.
    pub fn finish_swaps(&mut self, now: f64) -> Vec<Action> {
        let mut out = Vec::new();
        while self.is_swapping() {
            self.forward_swaps(now, &mut out);
        }
        out
    }

    /// Bring forward what is on its way.
    pub(crate) fn forward_swaps(&mut self, now: f64, out: &mut Vec<Action>) {
        self.forward_swap(now, out);
        for queue in self.own_queues() {
            self.forward_queue(queue, now, out);
        }
    }

    fn forward_swap(&mut self, now: f64, out: &mut Vec<Action>) {
        let Some(warm_up) = self.warm_up.take() else { return };
        self.warm_up = self.forward(warm_up, Post::Default, now, out);
    }

    fn forward_queue(&mut self, queue: QueueId, now: f64, out: &mut Vec<Action>) {
        let post = Post::Queue(queue);
        match self.own.get_mut(&queue).and_then(|own| own.next.take()) {
            Some(Next::Swap(warm_up)) => {
                if let Some(warm_up) = self.forward(warm_up, post, now, out) {
                    self.own.entry(queue).or_default().next = Some(Next::Swap(warm_up));
                }
            }
            Some(Next::Back(mut back)) => {
                if self.forward_back(&mut back, post, now, out) {
                    self.finish_back(queue, out);
                } else {
                    self.own.entry(queue).or_default().next = Some(Next::Back(back));
                }
            }
            None => {}
        }
    }

    /// One portion more; the warm-up, if it goes on.
    fn forward(
        &mut self,
        mut warm_up: WarmUp,
        post: Post,
        now: f64,
        out: &mut Vec<Action>,
    ) -> Option<WarmUp> {
        match warm_up.step(self.core_mut(), now) {
            Ok(false) => return Some(warm_up),
            Ok(true) => self.flip(warm_up, post, out),
            Err(error) => {
                let name = warm_up.name().to_owned();
                out.push(self.notice(post, PolicyNotice::SwapFailed { name, error }));
                self.drop_warm_up(post, warm_up);
            }
        }
        None
    }

    /// One portion more for the default policy; true when it has caught up.
    fn forward_back(&mut self, back: &mut GiveBack, post: Post, now: f64, out: &mut Vec<Action>) -> bool {
        let Some(mut seat) = self.live.take() else {
            // It failed meanwhile, and with it what it had keyed.
            let left = self.core_mut().close(post, At::Next);
            self.retired.orders.extend(left);
            return true;
        };
        let core = self.core_mut();
        let mut step = || {
            let done = back.keys.step(&mut seat, core, now, post)?;
            let most = core.config.keys_per_call.max(1);
            for ids in std::mem::take(&mut back.to_key).chunks(most) {
                seat.key(core, now, ids, post, At::Next)?;
            }
            Ok(done)
        };
        let stepped = step();
        self.live = Some(seat);
        stepped.unwrap_or_else(|error| {
            self.fail_live(Post::Default, error, out);
            false
        })
    }

    fn flip(&mut self, warm_up: WarmUp, post: Post, out: &mut Vec<Action>) {
        let (to, state) = (warm_up.name().to_owned(), warm_up.state);
        let core = self.core_mut();
        core.stats.swaps += 1;
        let before = match post {
            Post::Default => post,
            Post::Queue(queue) => core.post_of(queue),
        };
        let from = self.name_at(before).to_owned();
        let core = self.core_mut();
        if let Post::Queue(queue) = post {
            core.queues[queue as usize].own = true;
        }
        core.release_hold(post);
        let left = core.flip(post);
        self.retired.orders.extend(left);
        if let Some(seat) = self.set_live(post, warm_up.seat) {
            self.retired.policies.push(seat.policy);
        }
        out.push(self.notice(post, PolicyNotice::Swapped { from, to, state }));
    }

    fn finish_back(&mut self, queue: QueueId, out: &mut Vec<Action>) {
        let post = Post::Queue(queue);
        let from = self.name_at(post).to_owned();
        let to = self.policy_name().to_owned();
        let core = self.core_mut();
        core.stats.swaps += 1;
        core.release_hold(post);
        let left = core.flip(post);
        let state = &mut core.queues[queue as usize];
        state.own = false;
        let name = state.name.clone();
        self.retired.orders.extend(left);
        if let Some(seat) = self.own.remove(&queue).and_then(|own| own.live) {
            self.retired.policies.push(seat.policy);
        }
        out.push(Action::Notice(PolicyNotice::GivenBack { queue: name, from, to }));
    }

    /// Those who hear of what happens in a queue: all, when nobody knows in which.
    fn listeners(&mut self, queue: Option<QueueId>) -> impl Iterator<Item = &mut Seat> {
        let own = queue.is_some_and(|queue| self.core().post_of(queue) != Post::Default);
        let default = self.live.iter_mut().chain(self.warm_up.as_mut().map(|warm_up| &mut warm_up.seat));
        let owned = self.own.iter_mut().filter(move |(id, _)| queue.is_none_or(|queue| queue == **id));
        let owned = owned.flat_map(|(_, own)| {
            let next = match &mut own.next {
                Some(Next::Swap(warm_up)) => Some(&mut warm_up.seat),
                _ => None,
            };
            own.live.as_mut().into_iter().chain(next)
        });
        default.filter(move |_| !own).chain(owned)
    }

    /// Tell the policies what happened to a job.
    pub(crate) fn note(
        &mut self,
        kind: JobEventKind,
        job: JobId,
        queue: Option<QueueId>,
        time: f64,
        value: f64,
    ) {
        for seat in self.listeners(queue) {
            if seat.policy.abilities().observing {
                seat.events.push(JobEvent { kind, job, time, value });
            }
        }
    }

    /// Have the policies give this job a key before the next pass.
    pub(crate) fn ask_key(&mut self, id: JobId, queue: QueueId) {
        for seat in self.listeners(Some(queue)) {
            seat.to_key.push(id);
        }
        if let Some(Next::Back(back)) = self.own.get_mut(&queue).and_then(|own| own.next.as_mut()) {
            back.to_key.push(id);
        }
    }

    /// What is kept for policies until the next pass has a bound.
    pub(crate) fn bound_events(&mut self, now: f64, out: &mut Vec<Action>) {
        let most = self.core().config.events_per_call;
        if self.live.as_ref().is_some_and(|seat| seat.is_full(most)) {
            self.feed_live(Post::Default, now, out);
        }
        if self.warm_up.as_ref().is_some_and(|warm_up| warm_up.seat.is_full(most)) {
            self.forward_swap(now, out);
        }
        for queue in self.own_queues() {
            let Some(own) = self.own.get_mut(&queue) else { continue };
            let next = match &own.next {
                Some(Next::Back(back)) => back.to_key.len() >= most,
                _ => own.warm_up().is_some_and(|warm_up| warm_up.seat.is_full(most)),
            };
            if own.live.as_ref().is_some_and(|seat| seat.is_full(most)) {
                self.feed_live(Post::Queue(queue), now, out);
            }
            if next {
                self.forward_queue(queue, now, out);
            }
        }
    }
}
