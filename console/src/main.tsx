import { render } from 'preact';
import './base/preferences.ts';
import { App } from './app.tsx';
import { routeStylesThroughCssom } from './ui/inline-styles.ts';

routeStylesThroughCssom();
render(<App />, document.getElementById('app')!);
