"use strict";
/* Light or dark, as the system says until the button is pressed; whoever draws by itself listens to "theme". */
const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
{
  const root = document.documentElement, button = document.getElementById("theme");
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    root.dispatchEvent(new Event("theme"));
  };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; show(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}
