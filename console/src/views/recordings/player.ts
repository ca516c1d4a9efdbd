// The player and its style sheet, in a file of their own that is loaded on first use.
export { create } from 'asciinema-player';
