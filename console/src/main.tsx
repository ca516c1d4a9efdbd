import { render } from 'preact';
import './base/preferences.ts';
import { App } from './app.tsx';

render(<App />, document.getElementById('app')!);
