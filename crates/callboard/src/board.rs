//! The board: all connections of one agent.

use crate::builder::{BoardBuilder, problem};
use callboard_core::actor::registry::{self, Add, Apply, CloseAll, RegistryActor, ServerTable};
use callboard_core::call::{CallError, CallOptions, ToolReply};
use callboard_core::catalog::{CatalogSnapshot, Permission};
use callboard_core::environment::Environment;
use callboard_core::event::BoardEvent;
use callboard_core::handle::ConnHandle;
use callboard_core::port::{ServerName, ServerSpec};
use callboard_core::settings::StartupMode;
use callboard_core::status::StatusSnapshot;
use callboard_policy::{Admission, AdmissionRules, LeftOut, admit_by};
use callboard_protocol::view::View;
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::timeout;

/// All connections of one agent. Cheap to share behind an [`Arc`]; close it with [`Board::close`].
pub struct Board {
    env: Arc<Environment>,
    table: Arc<ServerTable>,
    admission: Mutex<Arc<Admission>>,
    control: Mutex<Option<Control>>,
    /// One change of the servers after another.
    changing: tokio::sync::Mutex<()>,
    alive: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

/// What [`Board::apply`] has changed; names in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Servers that were not there before.
    pub added: Vec<ServerName>,
    /// Servers whose entry is another one now, or which their entry switches on or off.
    pub replaced: Vec<ServerName>,
    /// Servers that are not there any more.
    pub removed: Vec<ServerName>,
    /// Servers that are as they were.
    pub unchanged: Vec<ServerName>,
    /// Why entries cannot be used, one sentence each: what [`BoardBuilder::build`] would refuse. What has their
    /// names stays as it was.
    pub problems: Vec<String>,
    /// Which entries were let in, and what became of the others.
    pub admission: Arc<Admission>,
}

/// The thread on which the actors live.
struct Control {
    registry: actix::Addr<RegistryActor>,
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Board {
    /// Collects what a board is made of.
    pub fn builder() -> BoardBuilder {
        BoardBuilder::default()
    }

    pub(crate) async fn start(env: Environment, admission: Admission) -> Result<Board, String> {
        let (token, alive) = mpsc::channel(1);
        env.hold(token);
        let env = Arc::new(env);
        let table = Arc::new(ServerTable::new(env.clone()));
        let control = Control::start(env.clone(), table.clone()).await?;
        let add = Add { servers: admission.admitted.clone() };
        control.registry.send(add).await.map_err(|error| error.to_string())?;
        let board = Board {
            env,
            table,
            admission: Mutex::new(Arc::new(admission)),
            control: Mutex::new(Some(control)),
            changing: tokio::sync::Mutex::default(),
            alive: tokio::sync::Mutex::new(alive),
        };
        board.table.handles().values().for_each(|handle| board.begin(handle));
        Ok(board)
    }

    /// Asks a server to connect that should be connected before anybody uses it.
    fn begin(&self, handle: &ConnHandle) {
        let server = handle.server();
        let options = &server.spec().options;
        let background = self.env.settings.startup_mode == StartupMode::Background;
        if background || options.always_load || options.required {
            handle.demand();
        }
    }

    fn registry(&self) -> Option<actix::Addr<RegistryActor>> {
        self.control.lock().as_ref().map(|control| control.registry.clone())
    }

    /// Makes these the board's servers, all of them, as if it had been built with them.
    ///
    /// A server whose entry leads to the same connection as before is not touched. One whose entry is another one
    /// is connected anew; the calls under way on its old connection may end within `reconnect.drain_ms`. One that
    /// is not among them is closed, and its calls fail. A server that a person has switched off stays so, unless
    /// it was removed in between. Handles stay good as long as their server is there. An entry that cannot be used
    /// changes nothing and is told in [`Applied::problems`]. On a closed board nothing happens.
    ///
    /// Returns when the change is under way, before connections are made or ended.
    pub async fn apply(&self, servers: Vec<ServerSpec>) -> Applied {
        let _one_after_another = self.changing.lock().await;
        let Some(registry) = self.registry() else { return Applied::default() };
        let rules = AdmissionRules { transports: self.env.settings.transport_allow.clone() };
        let problems = servers.iter().filter_map(problem).collect();
        let mut admission = admit_by(servers, &rules);
        let kept = set_aside(&mut admission);
        let admission = Arc::new(admission);
        let apply = Apply {
            servers: admission.admitted.clone(),
            disabled: admission.disabled.iter().map(|left_out| left_out.spec.name.clone()).collect(),
            kept,
        };
        let Ok(applied) = registry.send(apply).await else { return Applied::default() };
        *self.admission.lock() = admission.clone();
        let registry::Applied { added, replaced, removed, unchanged } = applied;
        let handles = self.table.handles();
        let new = added.iter().chain(&replaced).filter_map(|name| handles.get(name));
        new.for_each(|handle| self.begin(handle));
        Applied { added, replaced, removed, unchanged, problems, admission }
    }

    /// Takes a server off the board: its calls fail, and nothing that was started for it is left afterwards, within
    /// the graces of children. False when there is none of this name.
    pub async fn remove(&self, name: &str) -> bool {
        let _one_after_another = self.changing.lock().await;
        let Some(registry) = self.registry() else { return false };
        let (done, mut all_gone) = mpsc::channel(1);
        let remove = registry::Remove { server: ServerName::new(name), done };
        let is_known = registry.send(remove).await.unwrap_or(false);
        let _ = timeout(self.patience(), all_gone.recv()).await;
        is_known
    }

    /// How long connections may take to end.
    fn patience(&self) -> Duration {
        self.env.settings.stdio_close_grace + self.env.settings.stdio_term_grace + CLOSE_SLACK
    }

    /// What every server is doing at this moment.
    pub fn status(&self) -> StatusSnapshot {
        StatusSnapshot { servers: self.table.handles().values().map(ConnHandle::status).collect() }
    }

    /// The tools of all servers whose lists are known, under names that models can use.
    pub fn catalog(&self) -> Arc<CatalogSnapshot> {
        self.table.catalog()
    }

    /// Which entries were let in, and what became of the others, when the servers were last given.
    pub fn admission(&self) -> Arc<Admission> {
        self.admission.lock().clone()
    }

    /// The way to a server.
    pub fn server(&self, name: &str) -> Option<ConnHandle> {
        self.table.handles().get(name).cloned()
    }

    /// The ways to all servers, by name.
    pub fn servers(&self) -> Vec<ConnHandle> {
        self.table.handles().values().cloned().collect()
    }

    /// The name that a mistyped one was most likely meant to be.
    pub fn nearest_server(&self, name: &str) -> Option<ServerName> {
        let handles = self.table.handles();
        crate::load::nearest(name, handles.keys().map(ServerName::as_str)).map(ServerName::new)
    }

    /// Everything that happens from now on. A reader that lags far behind loses the oldest events.
    pub fn events(&self) -> broadcast::Receiver<BoardEvent> {
        self.env.subscribe()
    }

    /// Asks every server to connect, and returns at once.
    pub fn connect_all(&self) {
        for handle in self.table.handles().values() {
            handle.demand();
        }
    }

    /// Calls a tool by its qualified name (`mcp__server__tool`); `arguments` is a JSON object.
    ///
    /// # Errors
    /// [`CallError::Unsupported`] when no known tool has this name; otherwise as [`ConnHandle::call_tool`].
    pub async fn call(
        &self,
        name: &str,
        arguments: &str,
        options: CallOptions,
    ) -> Result<ToolReply, CallError> {
        let (handle, tool) = {
            let catalog = self.catalog();
            let Some(entry) = catalog.find(name) else {
                return Err(CallError::Unsupported(format!("there is no tool {name}")));
            };
            if entry.permission == Permission::Deny {
                return Err(CallError::Unsupported(format!("tool {name} may not be called")));
            }
            (entry.handle.clone(), entry.item.key.clone())
        };
        handle.call_tool(&tool, arguments, options).await
    }

    /// What a model is shown of a result: within `result.tokens_max` and `result.blob_bytes_max`, cut where a
    /// reader would, with a note for each thing that was cut or left out. The reply itself stays whole.
    ///
    /// # Errors
    /// [`CallError::Invalid`] when the reply is no tool result at all.
    pub fn view(&self, reply: &ToolReply) -> Result<View, CallError> {
        reply.view(self.env.settings.view_limits())
    }

    /// Ends every connection and waits, within the graces of children, until nothing that was started is left.
    /// Calls under way fail. Doing it twice does nothing.
    pub async fn close(&self) {
        let Some(control) = self.control.lock().take() else { return };
        self.env.release();
        let (told, mut all_told) = mpsc::channel(1);
        control.registry.do_send(CloseAll(told));
        let _ = all_told.recv().await;
        let _ = timeout(self.patience(), self.alive.lock().await.recv()).await;
        let Control { stop, thread, .. } = control;
        let _ = stop.send(());
        let _ = self.env.runtime.spawn_blocking(move || thread.join()).await;
    }
}

/// Moves the entries that cannot be used to those that are refused; gives their names.
fn set_aside(admission: &mut Admission) -> Vec<ServerName> {
    let admitted = admission.admitted.extract_if(.., |one| problem(one.spec()).is_some());
    let mut unusable: Vec<Arc<ServerSpec>> = admitted.map(|one| Arc::new(one.spec().clone())).collect();
    let disabled = admission.disabled.extract_if(.., |one| problem(&one.spec).is_some());
    unusable.extend(disabled.map(|one| one.spec));
    let names = unusable.iter().map(|spec| spec.name.clone()).collect();
    let left_out = |spec: Arc<ServerSpec>| problem(&spec).map(|reason| LeftOut { spec, reason });
    admission.refused.extend(unusable.into_iter().filter_map(left_out));
    names
}

/// What closing may take beyond the graces of children: a last request to an HTTP server, the reaping.
const CLOSE_SLACK: Duration = Duration::from_secs(3);

impl Drop for Board {
    /// Without [`Board::close`] the connections end in the background, as fast as the runtime lets them.
    fn drop(&mut self) {
        if let Some(control) = self.control.get_mut().take() {
            self.env.release();
            let (told, _) = mpsc::channel(1);
            control.registry.do_send(CloseAll(told));
            let _ = control.stop.send(());
        }
    }
}

impl Control {
    /// Starts the thread, its actor system and the registry in it.
    async fn start(env: Arc<Environment>, table: Arc<ServerTable>) -> Result<Control, String> {
        let (ready, started) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            actix::System::new().block_on(async move {
                let _ = ready.send(RegistryActor::start(env, table));
                let _ = stopped.await;
                // Messages that were sent before the stop are still handled.
                tokio::task::yield_now().await;
            });
        };
        let thread = thread::Builder::new().name("callboard-control".into()).spawn(run);
        let thread = thread.map_err(|error| format!("no thread for the actors: {error}"))?;
        let registry = started.await.map_err(|_| "the actors' thread ended at once".to_owned())?;
        Ok(Control { registry, stop, thread })
    }
}
