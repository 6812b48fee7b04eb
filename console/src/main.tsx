import { render } from 'preact';
import './styles/base.css';
import './styles/controls.css';
import './styles/layout.css';
import './styles/list.css';
import './styles/sandbox.css';
import './state/title';
import { App } from './app';
import { ask } from './state/session';

void ask();
render(<App />, document.getElementById('app')!);
