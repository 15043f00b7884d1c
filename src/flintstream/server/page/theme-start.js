// Applies the theme that was chosen here before anything is drawn; without a choice, the system's holds.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("flint.theme");
  } catch {
    // Storage may be switched off.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
