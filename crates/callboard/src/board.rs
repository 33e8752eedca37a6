//! The board: all connections of one agent.

use crate::builder::BoardBuilder;
use callboard_core::actor::registry::{Add, CloseAll, RegistryActor, ServerTable};
use callboard_core::call::{CallError, CallOptions, ToolReply};
use callboard_core::catalog::{CatalogSnapshot, Permission};
use callboard_core::environment::Environment;
use callboard_core::event::BoardEvent;
use callboard_core::handle::ConnHandle;
use callboard_core::port::ServerName;
use callboard_core::settings::StartupMode;
use callboard_core::status::StatusSnapshot;
use callboard_policy::Admission;
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
    admission: Admission,
    control: Mutex<Option<Control>>,
    alive: tokio::sync::Mutex<mpsc::Receiver<()>>,
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
        let background = env.settings.startup_mode == StartupMode::Background;
        for handle in table.handles().values() {
            let options = &handle.server().spec().options;
            if background || options.always_load || options.required {
                handle.demand();
            }
        }
        let control = Mutex::new(Some(control));
        Ok(Board { env, table, admission, control, alive: tokio::sync::Mutex::new(alive) })
    }

    /// What every server is doing at this moment.
    pub fn status(&self) -> StatusSnapshot {
        StatusSnapshot { servers: self.table.handles().values().map(ConnHandle::status).collect() }
    }

    /// The tools of all servers whose lists are known, under names that models can use.
    pub fn catalog(&self) -> Arc<CatalogSnapshot> {
        self.table.catalog()
    }

    /// Which entries were let in, and what became of the others.
    pub fn admission(&self) -> &Admission {
        &self.admission
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
        let graces = self.env.settings.stdio_close_grace + self.env.settings.stdio_term_grace;
        let _ = timeout(graces + CLOSE_SLACK, self.alive.lock().await.recv()).await;
        let Control { stop, thread, .. } = control;
        let _ = stop.send(());
        let _ = self.env.runtime.spawn_blocking(move || thread.join()).await;
    }
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
