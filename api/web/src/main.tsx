// The console: sources under api/web, built at set-up, served at /ui.
import { render } from "preact";
import "./style/base.css";
import "./style/shell.css";
import "./style/parts.css";
import "./style/views.css";
import { App } from "./shell/app";
import { listen } from "./shell/heartbeat";

const root = document.getElementById("app");
if (root !== null) {
  listen();
  render(<App />, root);
}
