// A widget that hears its kernel however long the page took to load it.
//
// anywidget (0.11 at least) lets what the kernel says wait until a widget's module is there, but for two seconds only: on
// a page that is busier, it then lets all that the kernel says to this widget fall, for as long as the page is open. What
// the reader presses still arrives, and the widget draws what it was given first: it looks alive and is deaf.
// `listening(make)`, where `make()` gives anywidget's { initialize, render }, notices that, hears the kernel without
// anywidget, asks it for what has been missed, and begins again with that.

function listening(make) {
  return async () => {
    const views = new Set();
    let inner = await make(), given, end, turn = Promise.resolve();
    const inTurn = (does) => (turn = turn.then(does, does));

    const begin = async () => { end = await inner.initialize?.(given); };
    const draw = async (view) => { if (views.has(view)) view.end = await inner.render?.(view.given); };
    const again = async () => {
      for (const view of views) {
        await view.end?.();
        view.given.el.replaceChildren();
      }
      await end?.();
      given.model.off(null, null); // all that was listened to so far, ours as well
      inner = await make();
      await begin();
      for (const view of views) await draw(view);
    };

    return {
      async initialize(all) {
        given = all;
        hearWithoutFail(given.model, () => inTurn(again));
        await begin();
        return () => end?.();
      },
      async render(all) {
        const view = { given: all };
        views.add(view);
        await inTurn(() => draw(view));
        return () => { views.delete(view); return view.end?.(); };
      },
    };
  };
}

// Calls `caughtUp()` once the model holds what the kernel does, if it has missed anything.
function hearWithoutFail(model, caughtUp) {
  const real = itself(model);
  if (!real?.comm) return; // a page without a kernel
  const nothing = { content: { data: { method: "nothing" } } };
  Promise.resolve(real._handle_comm_msg(nothing)).catch(() => { // no message passes any more
    let gate = real;
    while (!Object.hasOwn(gate, "_handle_comm_msg")) gate = Object.getPrototypeOf(gate);
    const behind = Object.getPrototypeOf(gate);
    real.comm.on_msg((message) => behind._handle_comm_msg.call(real, message));
    model.on("change:_told", caughtUp);
    model.set("_missed", Math.ceil(1e9 * Math.random())); // the kernel answers with all its state, and `_told` after it
    model.save_changes();
  });
}

// The model that anywidget gives a few methods of: whoever hears of a change is told whose it was.
function itself(model) {
  const before = model.get("_missed");
  let found;
  const hear = (whose) => { found = whose; };
  model.on("change:_missed", hear);
  model.set("_missed", before + 1);
  model.set("_missed", before);
  model.off("change:_missed", hear);
  return found;
}
